"""The same surface without async: calls block. `app = kinesin.plain.App(url)`; handlers may still be async."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from . import _app, _client
from ._client import P
from ._task import Task
from ._types import Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

A = ParamSpec("A")
R = TypeVar("R")


class _Loop:
    """An event loop in a thread of its own. A forked process gets another one."""

    def __init__(self) -> None:
        self._lock, self._pid = threading.Lock(), 0

    def run(self, call: Coroutine[Any, Any, R]) -> R:
        with self._lock:
            if self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="kinesin-calls", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_loop = _Loop()


def _blocks(call: Callable[Concatenate[Any, A], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, A], R]:
    @functools.wraps(call)
    def blocking(self: Any, *args: A.args, **kwargs: A.kwargs) -> R:
        return _loop.run(call(self._of, *args, **kwargs))

    return cast(Callable[Concatenate[Any, A], R], blocking)


def _each(call: Callable[Concatenate[Any, A], AsyncIterator[R]]) -> Callable[Concatenate[Any, A], Iterator[R]]:
    @functools.wraps(call)
    def blocking(self: Any, *args: A.args, **kwargs: A.kwargs) -> Iterator[R]:
        each = call(self._of, *args, **kwargs)

        async def following() -> R:
            return await each.__anext__()

        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield _loop.run(following())

    return cast(Callable[Concatenate[Any, A], Iterator[R]], blocking)


class Lambda(Generic[P]):
    """As kinesin.Lambda; one that handler returned can be called, as a unit test does."""

    def __init__(self, of: _client.Lambda[P]) -> None:
        self._of, self.name, self.item, self.by_key = of, of.name, of.item, of.by_key
        self.function: Callable[[Task[P]], Any] | None = getattr(of, "function", None)
        if self.function is not None:
            functools.update_wrapper(self, self.function, updated=())

    def __call__(self, task: Task[P]) -> Any:
        return self._of(task)  # type: ignore[operator]

    schedule = _blocks(_client.Lambda.schedule)
    schedule_many = _blocks(_client.Lambda.schedule_many)


class _Part:
    def __init__(self, of: Any) -> None:
        self._of = of


class Chains(_Part):
    """As kinesin.Chains."""

    get = _blocks(_client.Chains.get)
    cancel = _blocks(_client.Chains.cancel)
    pause = _blocks(_client.Chains.pause)
    resume = _blocks(_client.Chains.resume)
    redrive = _blocks(_client.Chains.redrive)
    extend = _blocks(_client.Chains.extend)


class Groups(_Part):
    """As kinesin.Groups."""

    schedule = _blocks(_client.Groups.schedule)
    create = _blocks(_client.Groups.create)
    add = _blocks(_client.Groups.add)
    seal = _blocks(_client.Groups.seal)
    get = _blocks(_client.Groups.get)
    cancel = _blocks(_client.Groups.cancel)
    members = _each(_client.Groups.members)


class Crons(_Part):
    """As kinesin.Crons."""

    create = _blocks(_client.Crons.create)
    update = _blocks(_client.Crons.update)
    get = _blocks(_client.Crons.get)
    list = _blocks(_client.Crons.list)
    delete = _blocks(_client.Crons.delete)
    pause = _blocks(_client.Crons.pause)
    resume = _blocks(_client.Crons.resume)
    run = _blocks(_client.Crons.run)
    backfill = _blocks(_client.Crons.backfill)
    history = _blocks(_client.Crons.history)


class App(contextlib.AbstractContextManager["App"]):
    """As kinesin.App."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._of = _app.App(url, **options)
        self.chains, self.groups, self.crons = Chains(self._of.chains), Groups(self._of.groups), Crons(self._of.crons)
        self.middleware, self.stop = self._of.middleware, self._of.stop

    def __exit__(self, *_: object) -> None:
        self.close()

    def handler(
        self, name: str, *, concurrency: int = 0, processes: bool = False, **defaults: Unpack[Options]
    ) -> Callable[[Callable[[Task[P]], Any]], Lambda[P]]:
        """As kinesin.App.handler."""
        register = self._of.handler(name, concurrency=concurrency, processes=processes, **defaults)
        return lambda function: Lambda(register(function))

    def lambda_(self, name: str, **defaults: Unpack[Options]) -> Lambda[Any]:
        """As kinesin.App.lambda_."""
        return Lambda(self._of.lambda_(name, **defaults))

    def run(self, slots: int = 100, **options: Any) -> None:
        """As kinesin.App.run: it blocks until SIGTERM, SIGINT or stop."""
        asyncio.run(self._of.run(slots, **options))

    close = _blocks(_client.Client.close)
    schedule = _blocks(_app.App.schedule)
    schedule_many = _blocks(_client.Client.schedule_many)
    get = _blocks(_client.Client.get)
    wait = _blocks(_client.Client.wait)
    cancel = _blocks(_client.Client.cancel)
    reschedule = _blocks(_client.Client.reschedule)
    run_now = _blocks(_client.Client.run_now)
    update = _blocks(_client.Client.update)
    redrive = _blocks(_client.Client.redrive)
    list = _each(_client.Client.list)
    count = _blocks(_client.Client.count)
    ensure = _blocks(_app.App.ensure)
