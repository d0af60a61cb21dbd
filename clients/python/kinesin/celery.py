"""Celery's decorator and calls, for tasks that move over: from kinesin.celery import app, shared_task.

app.run() is their worker. Arguments are JSON. An exception is tried again with backoff, max_retries times.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from . import _types as types
from . import plain
from ._task import Task

app = plain.App()  # at KINESIN_SERVER


class CeleryTask:
    """A function that can also be called later. With bind=True its first argument is the kinesin.Task."""

    def __init__(self, function: Callable[..., Any], name: str | None, bind: bool, max_retries: int, time_limit: float | None) -> None:
        functools.update_wrapper(self, function)
        self._function = function

        def handle(task: Task[Any]) -> Any:
            _close_old_connections()
            try:
                return function(*([task] if bind else []), *task.payload["args"], **task.payload["kwargs"])
            finally:
                _close_old_connections()

        self.name = (name or function.__name__).replace(".", "-")
        limits: Any = {"timeout": timedelta(seconds=time_limit)} if time_limit else {}
        self._lambda = app.handler(self.name, max_attempts=max_retries + 1, **limits)(handle)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> types.Scheduled:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, countdown: float = 0, eta: datetime | None = None,
        expires: float | datetime | None = None, task_id: str | None = None,
    ) -> types.Scheduled:  # fmt: skip
        """Schedules a call at eta, or countdown seconds from now. task_id is the key; expires is a time, or seconds from now."""
        options: Any = {"key": task_id} if task_id else {}
        options.update({"due": eta} if eta else {"delay": timedelta(seconds=countdown)})
        if expires is not None:
            by = expires if isinstance(expires, datetime) else datetime.now(timezone.utc) + timedelta(seconds=expires)
            options["start_before"] = by
        return self._lambda.schedule({"args": args, "kwargs": kwargs or {}}, **options)


def _close_old_connections() -> None:
    if "django.db" in sys.modules:
        sys.modules["django.db"].close_old_connections()


def shared_task(
    function: Callable[..., Any] | None = None, *, name: str | None = None, bind: bool = False, max_retries: int = 3,
    time_limit: float | None = None,
) -> Any:  # fmt: skip
    """Makes a function a task: with or without options, as Celery's."""
    make = functools.partial(CeleryTask, name=name, bind=bind, max_retries=max_retries, time_limit=time_limit)
    return make if function is None else make(function)
