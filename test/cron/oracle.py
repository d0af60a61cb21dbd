"""The oracle of test/cron: when an expression fires, by other code than Kinesin's.

cronsim reads cron expressions and dateutil RRULEs, both on a clock without a zone. Python's zoneinfo says which
instants show such a time: none in a gap, two in a fold. The policies are applied here, from their definition.
Where cronsim has the same definition, it also computes the instants itself (direct).

Reads a line of JSON with the cases, then one for each window (a week in a zone), and answers each with a list of lists
of Unix times.
"""

import bisect
import functools
import itertools
import json
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim
from dateutil.rrule import rrulestr

FIRST, LAST = datetime(2016, 12, 1), datetime(2027, 2, 1)
MARGIN = timedelta(days=2)  # more than any offset


@functools.cache
def walls(expression):
    """The times of all years that windows are in at which a clock without a zone fires."""
    if "FREQ=" in expression:
        dtstart, rule = expression.split(" ")
        times = rrulestr(rule, dtstart=datetime.strptime(dtstart, "DTSTART:%Y%m%dT%H%M%S"))
    else:
        times = CronSim(expression, FIRST)
    return list(itertools.takewhile(lambda t: t < LAST, times))


def between(expression, start, end):
    times = walls(expression)
    return times[bisect.bisect_left(times, start) : bisect.bisect_left(times, end)]


def unix(t):
    return int(t.timestamp())


def instants(wall, zone):
    """The instants that show a time: none, one or two, in order."""
    found = {unix(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)}
    shows = lambda at: datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0) == wall
    return sorted(at for at in found if shows(at))


def end_of_gap(wall, zone):
    wall = wall.replace(second=0)
    while not instants(wall, zone):
        wall += timedelta(minutes=1)
    return instants(wall, zone)[0]


def by_definition(case, zone, start, end):
    fires = set()
    local = lambda at: datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0, second=0)
    for wall in between(case["expression"], local(start) - MARGIN, local(end) + MARGIN):
        found = instants(wall, zone)
        if not found:
            if case["gap"] == "shift" and not case["steps"]:
                fires.add(end_of_gap(wall, zone))
        elif case["fold"] == "both" or case["steps"]:
            fires.update(found)
        else:
            fires.add(found[0])
    return sorted(at for at in fires if start <= at < end)


def directly(case, zone, start, end):
    fires = []
    for t in CronSim(case["expression"], datetime.fromtimestamp(start - 1, zone)):
        if unix(t) >= end:
            return fires
        fires.append(unix(t))


def answer(case, window):
    zone = ZoneInfo(window["zone"])
    oracle = directly if case["direct"] else by_definition
    return oracle(case, zone, window["from"], window["to"])


def main():
    cases = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        window = json.loads(line)
        print(json.dumps([answer(case, window) for case in cases]), flush=True)


main()
