"""Celery's decorator and calls, for tasks that move over: from kinesin.celery import app, shared_task.

app.run() is their worker. Arguments are JSON. An exception is tried again with backoff, max_retries times.
"""

from __future__ import annotations

import functools
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

from . import _types as types
from . import plain
from ._task import Task

app = plain.App()  # at KINESIN_SERVER


def shared_task(function: Any = None, *, name: str = "", bind: bool = False, max_retries: int = 3) -> Any:
    """Gives a function delay and apply_async. With bind=True its first argument is the kinesin.Task."""
    if function is None:
        return functools.partial(shared_task, name=name, bind=bind, max_retries=max_retries)

    @app.handler((name or function.__name__).replace(".", "-"), max_attempts=max_retries + 1)
    def handled(task: Task[Any]) -> Any:
        _close_old_connections()
        try:
            return function(*([task] if bind else []), *task.payload["args"], **task.payload["kwargs"])
        finally:
            _close_old_connections()

    def apply_async(
        args: Any = (), kwargs: Any = None, *, countdown: float = 0, eta: datetime | None = None,
        expires: float | datetime | None = None, task_id: str | None = None,
    ) -> types.Scheduled:  # fmt: skip
        """Schedules a call at eta, or countdown seconds from now. task_id is the key; expires is a time, or seconds from now."""
        if expires is not None and not isinstance(expires, datetime):
            expires = datetime.now(timezone.utc) + timedelta(seconds=expires)
        when = {"due": eta} if eta else {"delay": timedelta(seconds=countdown)}
        options: Any = {"key": task_id, "start_before": expires, **when}
        return handled.schedule({"args": args, "kwargs": kwargs or {}}, **options)

    function.apply_async, function.delay = apply_async, lambda *args, **kwargs: apply_async(args, kwargs)
    return function


def _close_old_connections() -> None:
    """Does for Django's connections what it does around a request."""
    if "django.db" in sys.modules:
        sys.modules["django.db"].close_old_connections()
