"""An attempt as its handler gets it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic

from . import _types as types
from ._client import Item, P
from ._wire import utc


class Stop:
    """Tells a handler to stop, and why."""

    def __init__(self) -> None:
        self.event, self.cause = threading.Event(), ""

    def set(self, cause: str) -> None:
        self.cause = self.cause or cause
        self.event.set()

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()  # in another process it is another one


@dataclass
class Task(Generic[P]):
    """An attempt of a task. attempt is the fencing number: it rises with each, and what a handler changes may refuse a lower one."""

    payload: P = field(repr=False)
    id: str = ""
    lambda_: str = ""
    attempt: int = 1
    due: datetime = field(default_factory=utc)
    deadline: datetime | None = None  # the attempt must have ended by then
    lateness: timedelta = timedelta()  # how long after its due time the attempt started
    timeout: timedelta | None = None
    created: datetime | None = None
    failures: int = 0  # attempts that failed before
    max_attempts: int = 10
    worker_lost: int = 0  # attempts whose worker was lost before
    priority: str = ""
    collection: str | None = None
    key: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    traceparent: str | None = None
    occurrence: types.Occurrence | None = None  # None: no cron has scheduled the task
    member: types.GroupMember | None = None
    group: types.GroupEnd | None = None  # the group that it follows
    parent: types.Parent | None = None  # the task that it follows
    chain: str | None = None
    following: list[Item] = field(default_factory=list, repr=False)
    _stop: Stop = field(default_factory=Stop, repr=False)

    def then(self, *items: Item) -> None:
        """Has more tasks follow, if the handler succeeds."""
        self.following.extend(items)

    @property
    def stopping(self) -> str:
        """Why the handler has to stop: "timeout", "cancelled", "draining", "fenced" or "lease_lost"; empty: it has not to.

        An async handler is cancelled then, the process of one with processes=True is ended; one in a thread has to look.
        """
        return self._stop.cause

    def wait_stopping(self, seconds: float) -> bool:
        """Waits so long in a thread, or until the handler has to stop, and reports whether it has to."""
        return self._stop.event.wait(seconds)


def task_of(claimed: types.Claimed, payload: Any, started: datetime, stop: Stop) -> Task[Any]:
    c, due = claimed, claimed.due or started
    return Task(
        payload, c.id, c.lambda_, c.attempt, due, started + c.timeout if c.timeout else None, max(started - due, timedelta()), c.timeout,
        c.created, c.failures, c.max_attempts, c.worker_lost, c.priority or "", c.collection, c.key, c.tags, c.traceparent,
        c.occurrence, c.member, c.group, c.parent, c.chain, [], stop,
    )  # fmt: skip
