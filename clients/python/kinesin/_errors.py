"""Errors: one class for each reason of a refusal, and what handlers raise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


class Error(Exception):
    """A call was refused or had no answer. detail says what was wrong, and what is allowed."""

    reason = ""

    def __init_subclass__(cls) -> None:
        cls.reason = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, detail: str, *, status: int = 0, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail, self.status, self.retry_after_s = detail, status, retry_after_s


class Invalid(Error):
    """A value is outside what is allowed."""


class UnknownLambda(Error):
    """No lambda has that name: create it first."""


class NotFound(Error):
    """There is no such task, or what else the call names."""


class KeyConflict(Error):
    """Another task holds the key."""


class TooLate(Error):
    """The task has ended, or a worker has it."""


class TooLarge(Error):
    """A payload or a request is above its limit."""


class Full(Error):
    """There is no space for new tasks."""


class Throttled(Error):
    """An admission quota is used up; retry_after_s says when to try again."""


class Unavailable(Error):
    """No server answered. The outcome may be unknown: a key makes a second call harmless."""


class LeaseLost(Error):
    """The lease of the worker has ended, and handlers went on."""


class Fenced(Error):
    """The attempt no longer owns the task."""


class Exists(Error):
    """A thing of that name exists with other settings."""


class InUse(Error):
    """The lambda has live tasks, or is being deleted."""


class Unsupported(Error):
    """This server cannot do it."""


class Internal(Error):
    """The server failed."""


class Unauthenticated(Error):
    """The call had no token that the server accepts."""


class Registered(Error):
    """The lambda is deleted with its registration only."""


class PermissionDenied(Error):
    """No grant of the caller allows it."""


class StaleSeq(Error):
    """The thing has changed since the caller read it."""


class NotScheduled(Error):
    """Some tasks of schedule_many are not durable. results has a Scheduled or an Error for each, in order."""

    def __init__(self, detail: str, results: Sequence[Any]) -> None:
        super().__init__(detail)
        self.results = list(results)
        self.reason = next(r.reason for r in results if isinstance(r, Error))


class Abandoned(Error):
    """Handlers did not return when the worker stopped: the process should end."""


BY_REASON: dict[str, type[Error]] = {c.reason: c for c in Error.__subclasses__()}


def refusal(status: int, problem: Any) -> Error:
    """Returns the error of a problem (RFC 9457)."""
    problem = problem if isinstance(problem, dict) else {}
    kind = BY_REASON.get(problem.get("reason", ""), Error)
    if kind is Error and status in (429, 502, 503, 504):
        kind = Unavailable
    from ._wire import seconds

    after = problem.get("retry_after")
    detail = str(problem.get("detail") or f"the server answered {status}")
    return kind(detail, status=status, retry_after_s=seconds(after) if after else None)


class Snooze(Exception):
    """Raised by a handler that wants to be called again after a delay, such as "5m". It is no failure."""

    def __init__(self, delay: Any) -> None:
        from ._wire import duration

        super().__init__(delay)
        self.delay = duration(delay)


class Fatal(Exception):
    """Raised by a handler when no retry can help: the task ends as fatal_failure."""


class Release(Exception):
    """Raised by a handler that gives its task back: another worker gets it at once. It is no failure."""
