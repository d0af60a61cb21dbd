"""What programs call: schedule tasks, read and change them; chains, groups and crons."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from . import _types as types
from ._errors import Error, NotScheduled
from ._reasons import Invalid, Throttled, Unavailable
from ._tracing import current_traceparent
from ._transport import Transport, quoted, refusal
from ._types import CronOptions, Options
from ._wire import Duration, Time, chunks, dumps, duration, encode, instant, json_bytes, request_id, seconds, show

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = TypeVar("P")
R = TypeVar("R")

LINES_PER_CALL_MAX = 1000
BYTES_PER_CALL_MAX = 4 << 20
CALLS_AT_ONCE_MAX = 4
WAIT_PER_CALL_S = 30.0
MEMBERS_PER_CALL_MAX = 1000
PAGE_MAX = 1000
SET_TIMEOUT_S = 60.0  # of calls about many tasks


@dataclass(frozen=True)
class ByKey:
    """Names the newest task of a lambda with a key. It goes wherever an id goes."""

    lambda_: str
    key: str


TaskID = Union[str, ByKey]


@dataclass(frozen=True)
class Item:
    """A task to schedule, with what follows it. It is a value: its methods return a changed copy."""

    lambda_: str
    fields: dict[str, Any]

    def then(self, *items: Item) -> Item:
        """Has tasks follow when it has succeeded."""
        return self._with("then", items)

    def else_(self, *items: Item) -> Item:
        """Has tasks follow when it has ended in any other way."""
        return self._with("else", items)

    def finally_(self, *items: Item) -> Item:
        """Has tasks follow when it has ended, in any way."""
        return self._with("finally", items)

    def _with(self, edge: str, items: Sequence[Item]) -> Item:
        more = [*self.fields.get(edge, []), *(i.wire() for i in items)]
        return dataclasses.replace(self, fields={**self.fields, **({edge: more} if more else {})})

    def after(self, **options: Unpack[Options]) -> Item:
        """Sets options, such as delay."""
        return dataclasses.replace(self, fields={**self.fields, **wire_options(options)})

    def wire(self) -> dict[str, Any]:
        return {"lambda": self.lambda_, **self.fields}


_WRITES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("delay", "timeout", "catch_up_within", "jitter", "lease"), duration),
    **dict.fromkeys(("due", "start_before", "start", "end", "until", "expires"), instant),
}


def wire_options(options: Any, known: Any = Options) -> dict[str, Any]:
    for name in options:
        if name not in known.__annotations__:
            raise Invalid(f"option {name!r}: want one of {', '.join(known.__annotations__)}")
    return set_fields(**options)


def set_fields(**options: Any) -> dict[str, Any]:
    """Returns the fields that are set, as the server reads them."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name == "backoff" and value is not None:
            if isinstance(value, str) or len(value) != 2:
                raise Invalid('backoff: want the shortest and the longest pause, such as ("1s", "10m")')
            fields["backoff_min"], fields["backoff_max"] = (duration(d) for d in value)
        elif value is not None:
            fields[name] = _WRITES.get(name, lambda v: v)(value)
    return fields


def chain(*items: Item, on_failure: Sequence[Item] = (), finally_: Sequence[Item] = ()) -> Item:
    """Returns the first task of a chain: each starts when the one before it has succeeded.

    on_failure starts when a step has ended in another way than with success, finally_ when the chain is over.
    """
    if not items:
        raise Invalid("a chain has one step at least")
    following = None
    for step in reversed(items):
        step = step.else_(*on_failure)
        following = step.finally_(*finally_) if following is None else step.then(following).else_(*finally_)
    assert following is not None
    return following


class Lambda(Generic[P]):
    """A named kind of work: what schedules its tasks, and defaults for them."""

    def __init__(self, client: Client, name: str, defaults: Options) -> None:
        self.client, self.name, self.defaults = client, name, wire_options(defaults)

    def item(self, payload: P | None = None, **options: Unpack[Options]) -> Item:
        """Returns the task that schedule would schedule: for schedule_many, chains and groups."""
        return Item(self.name, {**self.defaults, **wire_options(options), **encode(payload)})

    def by_key(self, key: str) -> ByKey:
        return ByKey(self.name, key)

    async def schedule(self, payload: P | None = None, **options: Unpack[Options]) -> types.Scheduled:
        """Schedules a task. When it returns, the task is durable."""
        return await self.client.schedule(self.item(payload, **options))

    async def schedule_many(self, payloads: Iterable[P], **options: Unpack[Options]) -> list[types.Scheduled]:
        """Schedules a task for each payload, with the same options."""
        return await self.client.schedule_many([self.item(p, **options) for p in payloads])


class _Try:
    """A task to be scheduled. Each try sends the same fields: with another delay, a request id names another task."""

    def __init__(self, item: Item) -> None:
        self.item, self.fields = item, {**item.fields, "request_id": request_id()}
        trace = "" if "traceparent" in item.fields else current_traceparent()
        if trace:
            self.fields["traceparent"] = trace
        self.result: types.Scheduled | Error | None = None


class Client(contextlib.AbstractAsyncContextManager["Client"]):
    """Schedules tasks, reads and changes them. One per process is enough; all event loops and threads may use it.

    url has several servers of one store with commas between them; without it, KINESIN_SERVER or http://127.0.0.1:7070.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, token_file: str | None = None,
        ca_file: str | None = None, client_certificate: tuple[str, str] | None = None,
        call_timeout: Duration = "10s", tries: int = 9,
    ) -> None:  # fmt: skip
        url = url or os.environ.get("KINESIN_SERVER") or "http://127.0.0.1:7070"
        self.transport = Transport(url, token, token_file, ca_file, client_certificate, call_timeout, tries)
        self.chains, self.groups, self.crons = Chains(self.transport), Groups(self.transport), Crons(self.transport)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        await self.transport.close()

    def lambda_(self, name: str, **defaults: Unpack[Options]) -> Lambda[Any]:
        """Returns a lambda that has its handler elsewhere, to schedule its tasks."""
        return Lambda(self, name, defaults)

    async def schedule(self, item: Item) -> types.Scheduled:
        """Schedules a task, with what follows it. When it returns, all of it is durable."""
        return await self.transport.ask(types.Scheduled, "POST", _tasks(item), _Try(item).fields)

    async def schedule_many(self, items: Iterable[Item]) -> list[types.Scheduled]:
        """Schedules any number of tasks, each by itself. It raises NotScheduled, with all results, if some are not durable."""
        tries = [_Try(i) for i in items]
        await self._send(tries)
        results = [t.result for t in tries]
        failed = [r for r in results if isinstance(r, Error)]
        if failed:
            raise NotScheduled(f"{len(failed)} of {len(tries)} tasks were not scheduled; the first: {failed[0].detail}", results)
        return results  # type: ignore[return-value]

    async def _send(self, tries: list[_Try]) -> None:
        """Leaves in each try what became of it."""
        by_path: dict[str, list[_Try]] = {}
        for one in tries:
            by_path.setdefault(_tasks(one.item), []).append(one)
        gate = asyncio.Semaphore(CALLS_AT_ONCE_MAX)

        async def send(path: str, batch: list[_Try]) -> None:
            async with gate:
                try:
                    await self.transport.retry(lambda: self._send_batch(path, batch))
                except Error as e:
                    for one in batch:
                        one.result = one.result or e

        calls = [
            send(path, batch)
            for path, all_ in by_path.items()
            for batch in chunks(all_, lambda t: json_bytes(t.fields), LINES_PER_CALL_MAX, BYTES_PER_CALL_MAX)
        ]
        await asyncio.gather(*calls)

    async def _send_batch(self, path: str, batch: list[_Try]) -> None:
        pending = [t for t in batch if t.result is None]
        lines = [dumps(t.fields) for t in pending]
        again: Error | None = None
        answers = await self.transport.once("POST", path, lines=lines, timeout_s=SET_TIMEOUT_S)
        for one, answer in zip(pending, answers):
            problem = answer.get("problem")
            if problem is None:
                one.result = show(types.Scheduled, answer)
                continue
            error = refusal(problem.get("status", 0), problem)
            if isinstance(error, (Unavailable, Throttled)):
                again = error
            else:
                one.result = error
        if again or len(answers) < len(pending):
            raise again or Unavailable(f"the server answered for {len(answers)} of {len(pending)} tasks")

    async def _task(self, kind: type[R], method: str, id: TaskID, verb: str = "", body: Any = None, **options: Any) -> R:
        if not id or not isinstance(id, (str, ByKey)):
            raise Invalid(f"the id of a task is {'empty' if id == '' else 'of type ' + type(id).__name__}: want a text, or ByKey")
        path = f"/lambdas/{quoted(id.lambda_)}/keys/{quoted(id.key)}" if isinstance(id, ByKey) else f"/tasks/{quoted(id)}"
        return await self.transport.ask(kind, method, path + verb, body, **options)

    async def get(self, id: TaskID, *, payload: bool = False) -> types.TaskInfo:
        """Reads a task."""
        return await self._task(types.TaskInfo, "GET", id, params={"payload": payload or None})

    async def wait(self, id: TaskID, timeout: Duration | None = None) -> types.TaskInfo:
        """Returns the task when it has ended, or raises TimeoutError."""
        end = None if timeout is None else time.monotonic() + seconds(timeout)
        while True:
            wait_s = WAIT_PER_CALL_S if end is None else min(WAIT_PER_CALL_S, max(end - time.monotonic(), 0.001))
            limit_s = self.transport.call_timeout_s + wait_s
            task = await self._task(types.TaskInfo, "GET", id, "/wait", params={"timeout": f"{wait_s:.3f}s"}, timeout_s=limit_s)
            if task.ended:
                return task
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"the task has not ended within {timeout}: it is {task.state}")
            await asyncio.sleep(0.02)  # in case a server answers at once

    async def cancel(self, id: TaskID, *, if_seq: int | None = None) -> types.CancelResult:
        """Makes sure that a task does not start, or asks its worker to stop it ("cancelling")."""
        return await self._task(types.CancelResult, "DELETE", id, params={"if_seq": if_seq})

    async def reschedule(
        self, id: TaskID, *, delay: Duration | None = None, due: Time | None = None, if_seq: int | None = None
    ) -> types.ChangeResult:
        """Moves a task that no worker has to another time."""
        when = set_fields(delay=delay, due=due)
        if len(when) != 1:
            raise Invalid("want delay or due, and not both")
        return await self._task(types.ChangeResult, "PATCH", id, body=when, params={"if_seq": if_seq})

    async def run_now(self, id: TaskID, *, if_seq: int | None = None) -> types.ChangeResult:
        """Has a task that waits for a due time or a retry start now."""
        return await self._task(types.ChangeResult, "POST", id, "/run", {}, params={"if_seq": if_seq})

    async def update(
        self, id: TaskID, payload: Any = None, *, reset: Sequence[str] = (), if_seq: int | None = None, **options: Unpack[Options]
    ) -> types.ChangeResult:
        """Changes payload, settings, priority or time of a task that no worker has. reset names options that become the lambda's."""
        fields = wire_options(options)
        for name in reset:
            fields.update({"backoff_min": None, "backoff_max": None} if name == "backoff" else {name: None})
        body = {**fields, **encode(payload)}
        return await self._task(types.ChangeResult, "PATCH", id, body=body, params={"if_seq": if_seq})

    async def redrive(self, id: TaskID, payload: Any = None, *, force: bool = False, if_seq: int | None = None) -> types.ChangeResult:
        """Starts an ended task anew under the same id; with force also one that succeeded."""
        body = {"force": force, "request_id": request_id(), **encode(payload)}
        return await self._task(types.ChangeResult, "POST", id, "/redrive", body, params={"if_seq": if_seq})

    async def list(
        self, lambda_: str | None = None, *, state: str | None = None, where: str | None = None, order: str | None = None,
        limit: int | None = None, max_examined: int | None = None,
    ) -> AsyncIterator[types.TaskInfo]:  # fmt: skip
        """Lists tasks page by page. order is "due", "-created" or "-ended"; where is a filter (docs/reference/filters.md)."""
        params: dict[str, Any] = {"lambda": lambda_, "state": state, "where": where, "order": order, "max_examined": max_examined}
        left = limit
        while left is None or left > 0:
            params["limit"] = PAGE_MAX if left is None else min(left, PAGE_MAX)
            page = await self.transport.call("GET", "/tasks", params=params, timeout_s=SET_TIMEOUT_S)
            for task in page["tasks"]:
                yield show(types.TaskInfo, task)
            left = None if left is None else left - len(page["tasks"])
            params["cursor"] = page.get("next") or None
            if params["cursor"] is None:
                return

    async def count(self, where: str | None = None, *, exact: bool = False) -> types.CountResult:
        """Counts the tasks that a filter selects; without one all."""
        params = {"where": where, "exact": exact}
        return await self.transport.ask(types.CountResult, "GET", "/tasks/count", params=params, timeout_s=SET_TIMEOUT_S)


def _tasks(item: Item) -> str:
    return f"/lambdas/{quoted(item.lambda_)}/tasks"


class _Part:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Chains(_Part):
    """Chains, by the id of any of their tasks."""

    async def get(self, id: str) -> types.ChainInfo:
        return await self._transport.ask(types.ChainInfo, "GET", f"/chains/{quoted(id)}")

    async def cancel(self, id: str) -> types.ChainChange:
        return await self._control(id, "cancel")

    async def pause(self, id: str) -> types.ChainChange:
        return await self._control(id, "pause")

    async def resume(self, id: str) -> types.ChainChange:
        return await self._control(id, "resume")

    async def redrive(self, id: str) -> types.ChainChange:
        return await self._control(id, "redrive")

    async def extend(self, id: str, start_before: Time) -> types.ChainChange:
        return await self._control(id, "extend", {"start_before": instant(start_before)})

    async def _control(self, id: str, verb: str, body: Any = None) -> types.ChainChange:
        return await self._transport.ask(types.ChainChange, "POST", f"/chains/{quoted(id)}/{verb}", body)


class Groups(_Part):
    """Groups: tasks that follow when all members have ended."""

    async def schedule(
        self, members: Iterable[Item], *, then: Sequence[Item] = (), else_: Sequence[Item] = (), finally_: Sequence[Item] = (),
        expires: Time | None = None,
    ) -> types.GroupInfo:  # fmt: skip
        """Makes a group, adds its members and seals it."""
        group = await self.create(then=then, else_=else_, finally_=finally_, expires=expires)
        count = await self.add(group.id, 0, members)
        return await self.seal(group.id, members=count)

    async def create(
        self, *, then: Sequence[Item] = (), else_: Sequence[Item] = (), finally_: Sequence[Item] = (), expires: Time | None = None
    ) -> types.GroupInfo:
        """Makes an empty group. With else_ or finally_, then follows only if all members succeeded."""
        edges = {"then": then, "else": else_, "finally": finally_}
        body = {edge: [i.wire() for i in items] for edge, items in edges.items() if items}
        return await self._group("POST", "", {**body, **set_fields(request_id=request_id(), expires=expires)})

    async def add(self, group: str, at: int, members: Iterable[Item]) -> int:
        """Adds members to a group that has as many as at says, and returns how many it has then. A repeated call changes nothing."""
        for items in chunks((m.wire() for m in members), json_bytes, MEMBERS_PER_CALL_MAX, BYTES_PER_CALL_MAX // 2):
            await self._transport.call("POST", f"/groups/{quoted(group)}/members", {"at": at, "items": items}, timeout_s=SET_TIMEOUT_S)
            at += len(items)
        return at

    async def seal(self, group: str, *, members: int | None = None) -> types.GroupInfo:
        """Says that a group gets no more members, and has so many."""
        return await self._group("POST", f"/{quoted(group)}/seal", set_fields(members=members))

    async def get(self, group: str) -> types.GroupInfo:
        return await self._group("GET", f"/{quoted(group)}")

    async def cancel(self, group: str) -> types.GroupInfo:
        """Seals a group and has a job cancel its members."""
        answer = await self._transport.call("POST", f"/groups/{quoted(group)}/cancel", {"request_id": request_id()})
        return show(types.GroupInfo, answer["group"])

    async def members(self, group: str) -> AsyncIterator[types.Member]:
        """Lists the members of a group in their order, with their results."""
        start, more = 0, True
        while more:
            params = {"from": start, "limit": PAGE_MAX}
            page = await self._transport.call("GET", f"/groups/{quoted(group)}/members", params=params)
            for member in page["members"]:
                yield show(types.Member, member)
            start, more = page["next"], page["more"]

    async def _group(self, method: str, path: str, body: Any = None) -> types.GroupInfo:
        return await self._transport.ask(types.GroupInfo, method, "/groups" + path, body)


class Crons(_Part):
    """Crons schedule tasks again and again."""

    async def create(self, name: str, lambda_: str, schedule: str, payload: Any = None, **options: Unpack[CronOptions]) -> types.Cron:
        """Creates a cron, or returns the one that has these settings. schedule is five fields, six, @daily, @every 90s or an RRULE."""
        return await self._cron("POST", "", {"name": name, **self._settings(lambda_, schedule, payload, options)})

    async def update(
        self, name: str, version: int, lambda_: str, schedule: str, payload: Any = None, **options: Unpack[CronOptions]
    ) -> types.Cron:
        """Replaces all settings of a cron that has this version."""
        return await self._cron("PUT", name, {"version": version, **self._settings(lambda_, schedule, payload, options)})

    async def get(self, name: str) -> types.Cron:
        return await self._cron("GET", name)

    async def list(self, lambda_: str | None = None) -> list[types.Cron]:
        answer = await self._transport.call("GET", "/crons", params={"lambda": lambda_})
        return [show(types.Cron, c) for c in answer["crons"]]

    async def delete(self, name: str) -> None:
        await self._transport.call("DELETE", f"/crons/{quoted(name)}")

    async def pause(self, name: str, reason: str, *, until: Time | None = None) -> types.Cron:
        return await self._cron("POST", name, set_fields(reason=reason, until=until), "/pause")

    async def resume(self, name: str) -> types.Cron:
        return await self._cron("POST", name, None, "/resume")

    async def run(self, name: str) -> str:
        """Schedules a task as the cron would, now, and returns its id."""
        answer = await self._transport.call("POST", f"/crons/{quoted(name)}/run", {"request_id": request_id()})
        return str(answer["id"])

    async def backfill(self, name: str, from_: Time, to: Time, *, dry_run: bool = False, pace: int | None = None) -> types.Job:
        """Schedules the occurrences of a past range, as a job; with dry_run it only counts them."""
        body = {"from": instant(from_), "to": instant(to), **set_fields(request_id=request_id(), dry_run=dry_run, pace=pace)}
        return await self._transport.ask(types.Job, "POST", f"/crons/{quoted(name)}/backfill", body)

    async def history(self, name: str, limit: int = 20) -> Sequence[types.CronOccurrence]:
        """Says what became of nominal times, the newest first."""
        answer = await self._transport.call("GET", f"/crons/{quoted(name)}/history", params={"limit": limit})
        return [show(types.CronOccurrence, o) for o in answer["occurrences"]]

    @staticmethod
    def _settings(lambda_: str, schedule: str, payload: Any, options: Any) -> dict[str, Any]:
        return {"lambda": lambda_, "schedule": schedule, **encode(payload), **wire_options(options, CronOptions)}

    async def _cron(self, method: str, name: str, body: Any = None, verb: str = "") -> types.Cron:
        path = f"/crons/{quoted(name)}{verb}" if name else "/crons"
        return await self._transport.ask(types.Cron, method, path, body)
