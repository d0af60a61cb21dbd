"""Errors: of refusals (their classes are in _reasons), and what handlers raise."""

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


class NotScheduled(Error):
    """Some tasks of schedule_many are not durable. results has a Scheduled or an Error for each, in order."""

    def __init__(self, detail: str, results: Sequence[Any]) -> None:
        super().__init__(detail)
        self.results = list(results)
        self.reason = next(r.reason for r in results if isinstance(r, Error))


class Abandoned(Error):
    """Handlers did not return when the worker stopped: the process should end."""


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
