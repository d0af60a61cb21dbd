"""An application: handlers of lambdas, and the worker that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
import socket
import threading
import typing
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ._client import Client, Item, Lambda, P, _Try, set_fields
from ._errors import Error, Fatal
from ._pools import Processes, Threads
from ._reasons import Exists, Invalid, PermissionDenied, UnknownLambda
from ._task import Task, task_of
from ._tracing import below
from ._types import Options, Scheduled
from ._wire import Duration, Misfit, load_payload, seconds
from ._worker import Attempt, Worker, outcome_of, success

if TYPE_CHECKING:
    from typing_extensions import Unpack

Handler = Callable[[Task[Any]], Any]
CallNext = Callable[[Task[Any]], Awaitable[Any]]
Middleware = Callable[[Task[Any], CallNext], Awaitable[Any]]
M = TypeVar("M", bound=Middleware)

POOLS_MAX = 64  # of slots, each of which claims by itself


class Handled(Lambda[P]):
    """A lambda with its handler."""

    def __init__(self, client: Client, name: str, defaults: Options, function: Handler, concurrency: int, processes: bool) -> None:
        super().__init__(client, name, defaults)
        self.function, self.payload, self.concurrency, self.processes = function, payload_type(function), concurrency, processes
        self.settings = {k: v for k, v in self.defaults.items() if k in ("max_attempts", "timeout", "backoff_min", "backoff_max")}
        functools.update_wrapper(self, function, updated=())

    def __call__(self, task: Task[P]) -> Any:
        """Calls the function, as a unit test does."""
        return self.function(task)


class App(Client):
    """A client with handlers."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self._handlers: dict[str, Handled[Any]] = {}
        self._middleware: list[Middleware] = []
        self._running: _Run | None = None

    def handler(
        self, name: str, *, concurrency: int = 0, processes: bool = False, **defaults: Unpack[Options]
    ) -> Callable[[Callable[[Task[P]], Any]], Handled[P]]:
        """Makes a function the handler of a lambda, and returns the lambda.

        The options apply to every task that is scheduled through it. concurrency gives the lambda slots of its own. An
        async function runs in the event loop of run, a plain one in a thread, or in a process with processes=True.
        What it returns is kept as the result of the task.
        """

        def register(function: Callable[[Task[P]], Any]) -> Handled[P]:
            if name in self._handlers:
                raise Invalid(f"the lambda {name!r} has a handler already")
            if processes and inspect.iscoroutinefunction(function):
                raise Invalid("processes=True wants a plain function, not an async one")
            self._handlers[name] = handled = Handled[P](self, name, defaults, function, concurrency, processes)
            return handled

        return register

    def middleware(self, m: M) -> M:
        """Wraps every handler: async def m(task, call_next). The first one is the outermost."""
        self._middleware.append(m)
        return m

    async def ensure(self) -> None:
        """Creates the lambdas of all handlers, with their options as settings. It does not change a lambda that exists."""
        for name, h in self._handlers.items():
            with contextlib.suppress(Exists):
                await self.transport.call("POST", "/lambdas", {"name": name, **h.settings})

    async def schedule(self, item: Item) -> Scheduled:
        """Schedules a task, with what follows it. When it returns, all of it is durable. Lambdas of handlers that are
        missing are created."""
        try:
            return await super().schedule(item)
        except UnknownLambda:
            with contextlib.suppress(PermissionDenied):
                await self.ensure()
        return await super().schedule(item)

    async def _send(self, tries: list[_Try]) -> None:
        await super()._send(tries)
        missing = [t for t in tries if isinstance(t.result, UnknownLambda)]
        if missing:
            with contextlib.suppress(Error):
                await self.ensure()
            for one in missing:
                one.result = None
            await super()._send(missing)

    async def run(
        self, slots: int = 100, *, lease: Duration | None = None, grace: Duration = "25s", kill_after: Duration = "5s",
        name: str | None = None, version: str | None = None, signals: bool = True, exit_with: Callable[[int], Any] = os._exit,
    ) -> None:  # fmt: skip
        """Runs tasks until SIGTERM, SIGINT, stop or a cancel; then it drains: handlers may go on for the grace.
        Lambdas that are missing are created.

        It raises Abandoned when handlers do not return kill_after later, and a refusal of the server, such as
        PermissionDenied, at once. When the lease is lost and handlers do not stop, exit_with ends the process.
        """
        if self._running is not None:
            raise Invalid("run is running already: want one of them for an app")
        if not self._handlers:
            raise Invalid("no handler: want @app.handler(NAME) before run")
        groups = [{"lambdas": [n], "slots": h.concurrency} for n, h in self._handlers.items() if h.concurrency]
        shared = [n for n, h in self._handlers.items() if not h.concurrency]
        groups += [{"lambdas": shared, "slots": slots}] if shared else []
        if len(groups) > POOLS_MAX:
            raise Invalid(f"{len(groups)} pools of slots: want {POOLS_MAX} at most")
        run = _Run(self._handlers, list(self._middleware), seconds(kill_after))
        name = name or f"{socket.gethostname()}-{os.getpid()}"
        registration = set_fields(name=name, version=version, lease=lease, groups=groups)
        run.worker = Worker(self.transport, registration, self.ensure, run.begin, run.cancel, seconds(grace), seconds(kill_after), exit_with)
        self._running = run
        try:
            signals = signals and threading.current_thread() is threading.main_thread()
            with _signals(run.worker.stop) if signals else contextlib.nullcontext():
                await run.until_done()
        finally:
            self._running = None

    def stop(self) -> None:
        """Has run drain and return."""
        if self._running is not None:
            self._running.worker.stop()


class _Run:
    """The handlers' side of a worker, in the event loop of run."""

    worker: Worker

    def __init__(self, handlers: dict[str, Handled[Any]], middleware: list[Middleware], kill_after_s: float) -> None:
        self._handlers, self._middleware = handlers, middleware
        self._loop, self._threads, self._processes = asyncio.get_running_loop(), Threads(), Processes(kill_after_s)

    async def until_done(self) -> None:
        done = asyncio.wrap_future(self.worker.done)
        threading.Thread(target=self.worker.run, name="kinesin-worker", daemon=True).start()
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            self.worker.stop()
            await asyncio.shield(done)
            raise
        finally:
            self._threads.close()
            self._processes.close()

    # The worker's thread calls these two.

    def begin(self, a: Attempt) -> None:
        self._loop.call_soon_threadsafe(self._begin, a)

    def cancel(self, a: Attempt) -> None:
        self._loop.call_soon_threadsafe(lambda: a.handler.cancel() if a.handler else None)

    def _begin(self, a: Attempt) -> None:
        a.handler = self._loop.create_task(self._handle(a))
        a.handler.add_done_callback(functools.partial(self._ended, a))

    def _ended(self, a: Attempt, handler: asyncio.Task[dict[str, Any]]) -> None:
        try:
            outcome = handler.result()
        except BaseException as e:  # it was cancelled, maybe before it began
            outcome = {"outcome": "retriable_failure", "error": "" if isinstance(e, asyncio.CancelledError) else type(e).__name__}
        self.worker.call(a.session.handled, a, outcome)

    async def _handle(self, a: Attempt) -> dict[str, Any]:
        if a.stop.cause or a.session.lost:
            raise asyncio.CancelledError
        h = self._handlers[a.claimed.lambda_]
        try:
            task = task_of(a.claimed, load_payload(h.payload, a.fields), a.started, a.stop)
        except Misfit as e:
            return outcome_of(Fatal(f"decode the payload: {e}"))
        call: Any = functools.partial(self._call, h)
        for m in reversed(self._middleware):
            call = functools.partial(lambda m, call_next, task: m(task, call_next), m, call)
        try:
            with below(task.traceparent or ""):
                value = await call(task)
            return success(value, task.following)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as e:
            return outcome_of(e)

    async def _call(self, h: Handled[Any], task: Task[Any]) -> Any:
        if inspect.iscoroutinefunction(h.function):
            return await h.function(task)
        f = functools.partial(self._processes.run, h.function) if h.processes else h.function
        done = asyncio.wrap_future(self._threads.submit(functools.partial(f, task)))
        while not done.done():  # a cancel does not end a thread: the attempt goes on until the function returns
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        value = done.result()
        return await value if inspect.isawaitable(value) else value


def payload_type(function: Callable[..., Any]) -> Any:
    """Returns X of the parameter task: Task[X]; without one, any JSON."""
    try:
        hints = typing.get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters))
    except NameError as e:
        raise Invalid(f"the type of the payload of {function.__qualname__} is not known here: {e}; define it in the module") from None
    except (TypeError, ValueError, StopIteration):
        return Any
    hint = hints.get(first)
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Task else Any


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Has SIGTERM and SIGINT stop the worker; a second one ends the process at once."""

    def told(number: int, _: Any) -> None:
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, signal.SIG_DFL)
        stop()

    before = {s: signal.signal(s, told) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
