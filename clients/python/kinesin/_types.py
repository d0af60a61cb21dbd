"""Written by generate.py from the description of the API; do not edit."""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict

from ._wire import Duration, Time

__all__ = ["AttemptInfo", "CancelResult", "ChainChange", "ChainInfo", "ChainTask", "ChangeResult", "CountResult", "Cron", "CronOccurrence", "CronOptions", "CronPause", "GroupEnd", "GroupFollowUp", "GroupInfo", "GroupMember", "Job", "Link", "Member", "Occurrence", "Options", "Parent", "Scheduled", "TaskInfo", "WaitsFor"]


@dataclass(frozen=True, kw_only=True)
class AttemptInfo:
    """One attempt of a task."""
    end: datetime | None = None  # when it ended; not set: it has not ended
    error: str | None = None  # of a failure, for people
    number: int = 0  # 1 is the first of the task
    outcome: str | None = None  # how it ended; not set: it has not
    start: datetime | None = None  # when it started
    version: str | None = None  # of the worker's program, as it said when it registered; not set: it did not
    worker: str | None = None  # id of the lease of its worker


@dataclass(frozen=True, kw_only=True)
class CancelResult:
    """The result of a cancel."""
    id: str = ""  # of the task
    outcome: str | None = None  # cancelled: it does not start. cancelling: it runs, and its worker was asked to stop it.
    state: str | None = None  # of the task before the cancel


@dataclass(frozen=True, kw_only=True)
class ChainChange:
    """What became of a chain."""
    changed: int = 0  # tasks
    id: str = ""  # the id of its first task
    left: int = 0  # of cancel: tasks that it found and that run on, since else or finally leads to them
    told: int = 0  # of cancel: tasks that run, and were told to stop


@dataclass(frozen=True, kw_only=True)
class ChainInfo:
    """A chain."""
    count: int = 0  # how many of its tasks are there, as far as shown
    id: str = ""  # the id of its first task
    more: bool = False  # it has more tasks than are shown
    root: ChainTask | None = None  # its first task, with all that follow it
    state: str | None = None  # live, paused or ended


@dataclass(frozen=True, kw_only=True)
class ChainTask:
    """A task of a chain, or one that may come."""
    attempt: int = 0  # number of its newest attempt; 0: none
    before_redrive: bool = False  # It follows an earlier end of the task before it, which was redriven since, or comes after such a task.
    collection: str | None = None  # of the task; not set: it is in none
    delay: timedelta | None = None  # of one that is planned
    due: datetime | None = None  # not set: not known yet
    edge: str | None = None  # not set: it is the first
    ended: datetime | None = None  # when it ended; not set: it has not ended
    error: str | None = None  # of its last attempt, if it did not succeed
    followups: list[ChainTask] = field(default_factory=list)  # the tasks that follow it, or may
    id: str = ""  # not set: it is not there (yet)
    lambda_: str | None = None  # whose task it is
    paused: bool = False  # it does not start before its chain is resumed
    started: datetime | None = None  # first start; not set: it has not started
    state: str | None = None  # The state of the task; or planned: the task before it has not ended; skipped: that ended in another way; …
    waits_for: str | None = None  # for people: what a task waits for that has not started


@dataclass(frozen=True, kw_only=True)
class ChangeResult:
    """The result of a change of a task."""
    due: datetime | None = None  # when it is due now
    id: str = ""  # of the task
    note: str | None = None  # over HTTP: says that a due time in the past was taken for now
    seq: int = 0  # rises with each change; the ETag
    state: str | None = None  # after the change, or as it was found if there is a problem


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """An attempt as a worker gets it."""
    attempt: int = 0  # fencing number
    chain: str | None = None  # id of the chain; not set: it is in none
    claim: str = ""  # names the attempt: the 16 bytes of its task
    collection: str | None = None  # label for a subset of the lambda's tasks; not set: none
    created: datetime | None = None  # when it was scheduled
    due: datetime | None = None  # when it was to start
    failures: int = 0  # earlier attempts that count against max_attempts
    group: GroupEnd | None = None  # not set: it does not follow after a group
    hold: timedelta | None = None  # How long after receipt the worker must wait before it starts the task, so that it needs no clock of its own.
    id: str = ""  # public id
    key: str | None = None  # idempotency key; not set: none
    lambda_: str = ""  # whose task it is
    max_attempts: int = 0  # so many failures, and it is dead
    member: GroupMember | None = None  # not set: it is no member of a group
    occurrence: Occurrence | None = None  # not set: no cron has scheduled it
    parent: Parent | None = None  # not set: the task follows no other
    payload: Any = None  # for the handler; not set: nothing, or see blob
    priority: str | None = None  # one of the lambda's
    tags: dict[str, str] = field(default_factory=dict)  # by name; at most 16
    timeout: timedelta | None = None  # the attempt must have ended after so long
    traceparent: str | None = None  # W3C trace context for the handler; not set: none
    worker_lost: int = 0  # earlier attempts whose worker was lost; not counted in failures


@dataclass(frozen=True, kw_only=True)
class CountResult:
    """A number of tasks."""
    count: int = 0  # of the tasks
    exact: bool = False  # the tasks were counted, not estimated
    examined: int = 0  # rows that were read for it


@dataclass(frozen=True, kw_only=True)
class Cron:
    """A cron schedules a task of a lambda whenever its schedule says."""
    catch_up: str | None = None  # which missed occurrences run: last (default), none or all
    catch_up_max: int | None = None  # of all: how many at most; not set: 1,000
    catch_up_within: timedelta | None = None  # of all: how long ago at most; not set: a day
    collection: str | None = None  # label of its tasks; not set: none
    created: datetime | None = None  # when it was created
    created_by: str | None = None  # an identity
    end: datetime | None = None  # no nominal time at or after it; not set: no bound
    failures_max: int | None = None  # so many failed occurrences in a row pause the cron; not set: none does
    fold: str | None = None  # a time of day that a clock change makes happen twice: first (default) or both
    gap: str | None = None  # a time of day that a clock change leaves out: shift (default) or skip it
    jitter: timedelta | None = None  # each occurrence is due later by less than this, always by the same; at most 24h, in whole milliseconds
    lambda_: str | None = None  # a managed lambda; cannot change
    lambda_deleted: bool | None = None  # it fires no more, and can only be deleted
    managed_by: str | None = None  # name of the declared set that it is of; not set: none
    name: str | None = None  # of 1 to 64 letters, digits, _ and -; cannot change
    next: list[datetime] = field(default_factory=list)  # nominal times to come, at most 5; none while it is paused
    overlap: str | None = None  # an occurrence while an earlier one has not ended: skip it (default), allow both, have it queue, cancel the …
    pause: CronPause | None = None  # not set: it is not paused
    payload: Any = None  # {{nominal}} in it becomes the nominal time
    priority: str | None = None  # of its tasks, one of the lambda's; not set: its default
    registered: bool | None = None  # the lambda's registration made it, and it alone changes and deletes it
    revision: int | None = None  # Set by the server. number of its settings that decide about occurrences from now on
    schedule: str | None = None  # when it fires: five fields, six with seconds first, @daily, @every 90s or an RRULE
    start: datetime | None = None  # no nominal time before it, from which @every and an RRULE count; not set: no bound
    tags: dict[str, str] = field(default_factory=dict)  # of its tasks
    updated: datetime | None = None  # when it was changed last
    updated_by: str | None = None  # an identity
    version: int | None = None  # rises with each change
    warning: str | None = None  # in the answer to SetCron alone: what its author may not have meant, such as six fields, the first of which …
    zone: str | None = None  # IANA name of the zone whose clock it follows; not set: UTC


@dataclass(frozen=True, kw_only=True)
class CronOccurrence:
    """What became of a nominal time."""
    backfill: bool = False  # its task is that of a backfill
    id: str = ""  # of its task; not set: it has none
    late: timedelta | None = None  # how long after its due time it first started; not set: it was not started
    manual: bool = False  # RunCron has scheduled its task, and nominal is when
    nominal: datetime | None = None  # the time at which the cron's expression fires
    outcome: str | None = None  # ran, runs, waits, skipped, missed or forgotten (its row is gone)
    reason: str | None = None  # of what was skipped or missed
    revision: int = 0  # number of the cron's settings that were in charge
    state: str | None = None  # of its task


@dataclass(frozen=True, kw_only=True)
class CronPause:
    """Why a cron does not fire."""
    at: datetime | None = None  # when it was paused
    by: str | None = None  # an identity; not set: its failure limit
    reason: str | None = None  # why, for people
    until: datetime | None = None  # when it resumes by itself; not set: never


@dataclass(frozen=True, kw_only=True)
class GroupEnd:
    """After which group a task follows, and how that has ended."""
    cancelled: bool = False  # the group was cancelled before all members had ended
    ended: dict[str, int] = field(default_factory=dict)  # members in each end, when the group was done
    expired: bool = False  # the group expired; members that ended is less than members then
    group: str | None = None  # id of the group
    members: int = 0  # how many the group has


@dataclass(frozen=True, kw_only=True)
class GroupFollowUp:
    """A task that may follow after a group."""
    edge: str | None = None  # how it follows the group
    id: str = ""  # of the task; not set: none follows, or none yet
    lambda_: str | None = None  # whose task it is
    problem: str | None = None  # why none could follow


@dataclass(frozen=True, kw_only=True)
class GroupInfo:
    """A group."""
    cancelled: datetime | None = None  # not set: it was not cancelled
    cancelled_by: str | None = None  # an identity
    completed: datetime | None = None  # when the last member was seen to have ended, or the group expired
    counted: int = 0  # The first members, so many, were counted by their state.
    counts: dict[str, int] = field(default_factory=dict)  # members by state
    created: datetime | None = None  # when it was made
    created_by: str | None = None  # an identity
    else_: str | None = None  # lambda of the task that follows instead if a member did not succeed; not set: none
    expires: datetime | None = None  # when it expires if it is not done
    follow_up: str | None = None  # id of the task that followed
    follow_ups: list[GroupFollowUp] = field(default_factory=list)  # all that may follow, in the order in which they were named
    id: str = ""  # of the group
    members: int = 0  # how many it has; at most 100,000
    problem: str | None = None  # why none could follow
    state: str | None = None  # open, sealed, done or expired
    then: str | None = None  # lambda of the task that follows


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """Which member of a group a task is."""
    group: str | None = None  # the id of the group
    index: int = 0  # of the member in its group; 0 is the first


@dataclass(frozen=True, kw_only=True)
class Job:
    """A change of many tasks, which goes on by itself."""
    action: str | None = None  # cancel, redrive, reschedule, expire or delete; backfill, which BackfillCron makes
    created: datetime | None = None  # when it was made
    created_by: str | None = None  # identity, with whose grants it acts
    ended: datetime | None = None  # when it ended; not set: it has not ended
    id: str = ""  # of the job
    matched: int = 0  # of a dry run: tasks that the filter selects; else those it has met so far
    matched_exact: bool = False  # matched was counted, not estimated
    outcomes: dict[str, int] = field(default_factory=dict)  # changed tasks by what became of them, refused ones by reason
    pace: int = 0  # tasks per second; 0: as fast as the store allows
    problem: str | None = None  # why it failed, or waits
    state: str | None = None  # counted (a dry run), running, paused, stopped, done or failed


@dataclass(frozen=True, kw_only=True)
class Link:
    """Where in a chain a task is."""
    edge: str | None = None  # not set: it is the first
    followups: int = 0  # how many follow-ups the task itself names
    parent: str | None = None  # the task before it; not set: it is the first
    paused: bool = False  # the chain is paused
    root: str | None = None  # the id of the chain: its first task


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member of a group."""
    index: int = 0  # in the group; 0 is the first
    task: TaskInfo | None = None  # not set: it may not be read, or is not known any more


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """Which occurrence of a cron a task is."""
    backfill: bool = False  # a backfill has scheduled it
    cron: str | None = None  # name of the cron
    nominal: datetime | None = None  # the time at which the cron's expression fires
    revision: int = 0  # number of the cron's settings that were in charge
    succeeded: datetime | None = None  # nominal time of the newest occurrence before it that succeeded; not set: none that is known


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The task before a follow-up, as it ended."""
    attempts: list[AttemptInfo] = field(default_factory=list)  # as error
    edge: str | None = None  # how the follow-up follows it
    error: str | None = None  # of its last attempt; only of a parent that did not succeed, or in finally
    id: str = ""  # of the task before
    key: str | None = None  # its idempotency key; not set: none
    lambda_: str | None = None  # whose task it is
    result: Any = None  # of a success
    state: str | None = None  # in which it ended


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """A task that is durable."""
    due: datetime | None = None  # when the task is due
    duplicate: bool = False  # a task has the key (or request id) already; id is its id
    id: str = ""  # of the task, which is durable
    replaced: bool = False  # the task that holds the key has the payload and time of this item now
    state: str | None = None  # of the task that holds the key


@dataclass(frozen=True, kw_only=True)
class TaskInfo:
    """A task."""
    attempt: int = 0  # fencing number of the newest attempt
    attempts: list[AttemptInfo] = field(default_factory=list)  # the last ten, oldest first
    backoff_max: timedelta | None = None  # the longest pause between its attempts; not set: its lambda's
    backoff_min: timedelta | None = None  # the shortest pause between its attempts; not set: its lambda's
    cancel_requested: bool = False  # it was cancelled while it ran
    chain: Link | None = None  # not set: it is in no chain
    collection: str | None = None  # label for a subset of the lambda's tasks; not set: none
    created: datetime | None = None  # when it was scheduled
    due: datetime | None = None  # when it was to start, or is
    ended: datetime | None = None  # when it ended; a task without it has not ended
    enqueued: datetime | None = None  # when it was last put on the queue of its lambda; not set: it was not
    failures: int = 0  # attempts that count against max_attempts
    group: GroupEnd | None = None  # not set: it does not follow after a group
    id: str = ""  # public id
    key: str | None = None  # idempotency key; not set: none
    lambda_: str = ""  # whose task it is
    limit_key: str | None = None  # whose task it is, for the lambda's limits by key
    max_attempts: int = 0  # so many failures, and it is dead; 0: not known, or its lambda is of mode deliver
    member: GroupMember | None = None  # not set: it is no member of a group
    next: datetime | None = None  # its next wake-up
    occurrence: Occurrence | None = None  # not set: no cron has scheduled it
    payload: Any = None  # only with GetRequest.with_payload
    payload_bytes: int = 0  # size of its payload, also when that is not returned
    priority: str | None = None  # one of the lambda's
    result: Any = None  # of a success; empty without the right to read payloads
    result_bytes: int = 0  # size of its result, also when that is not returned
    seq: int = 0  # rises with each change; the ETag
    start_before: datetime | None = None  # not set: it may start at any time
    started: datetime | None = None  # first start
    state: str = ""  # where it is in its life
    suspect: bool = False  # its worker was lost, and no attempt has ended since in a process that lived
    tags: dict[str, str] = field(default_factory=dict)  # by name; at most 16
    timeout: timedelta | None = None  # of one attempt; not set: its lambda's
    traceparent: str | None = None  # W3C trace context of who scheduled it; not set: none
    waits_for: WaitsFor | None = None  # why a task that is due has not started; not set: nothing that is known here
    worker: str | None = None  # who has it, or had it last; not set: nobody
    worker_lost: int = 0  # attempts whose worker was lost; not counted in failures


@dataclass(frozen=True, kw_only=True)
class WaitsFor:
    """What holds a task back."""
    gate: str | None = None  # the gate's id
    reason: str | None = None  # gate, quota, key, retry budget, no worker or queue full
    text: str | None = None  # for people
    until: datetime | None = None  # when it ends by itself; not set: not known


class Options(TypedDict, total=False):
    """Options of a task. What is not given is as the lambda says."""
    collection: str  # label for a subset of the lambda's tasks; at most 128 bytes; not set: none
    delay: Duration  # when to start, from now; instead of due
    due: Time  # When to start: set at most one of the two; neither means now. The past means now, and before 2001 is refused.
    key: str  # idempotency key: same lambda and key, same task; at most 256 bytes; not set: none
    limit_key: str  # whose task it is, such as a customer, for the lambda's limits by key; at most 256 bytes; not set: nobody's
    max_attempts: int  # so many failures, and the task is dead; not set: the lambda's
    on_conflict: str  # if a task holds the key: keep it (default), replace its payload and time, or reject this one; for replace a …
    priority: str  # one of the lambda's; not set: normal where the lambda has it, else its middle one
    start_before: Time  # the task ends as expired if it has not started by then; not set: as the lambda's start_within says
    tags: dict[str, str]  # at most 16
    timeout: Duration  # how long one attempt may take; not set: the lambda's
    backoff: tuple[Duration, Duration]  # the shortest and the longest pause before a retry
    traceparent: str  # W3C trace context; not set: that of the current span of OpenTelemetry


class CronOptions(TypedDict, total=False):
    """Settings of a cron."""
    catch_up: str  # which missed occurrences run: last (default), none or all
    catch_up_max: int  # of all: how many at most; not set: 1,000
    catch_up_within: Duration  # of all: how long ago at most; not set: a day
    collection: str  # label of its tasks; not set: none
    end: Time  # no nominal time at or after it; not set: no bound
    failures_max: int  # so many failed occurrences in a row pause the cron; not set: none does
    fold: str  # a time of day that a clock change makes happen twice: first (default) or both
    gap: str  # a time of day that a clock change leaves out: shift (default) or skip it
    jitter: Duration  # each occurrence is due later by less than this, always by the same; at most 24h, in whole milliseconds
    overlap: str  # an occurrence while an earlier one has not ended: skip it (default), allow both, have it queue, cancel the …
    priority: str  # of its tasks, one of the lambda's; not set: its default
    start: Time  # no nominal time before it, from which @every and an RRULE count; not set: no bound
    tags: dict[str, str]  # of its tasks
    zone: str  # IANA name of the zone whose clock it follows; not set: UTC
