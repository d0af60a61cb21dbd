"""Tests in virtual time, against the real program: a month passes in milliseconds.

    def test_the_reminder(kinesin_server):
        with kinesin_server.worker(app):
            send.schedule(Reminder(user=42), delay="30d")
            kinesin_server.advance("30d")
            assert mailed == [42]

It wants the program: the package kinesin_server of a release, or KINESIN_BIN, or kinesin in PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import httpx

from . import plain
from ._app import App
from ._reasons import Unavailable
from ._transport import refusal
from ._wire import Duration, Time, duration, instant, parse_time

ADVANCE_MAX_S = 60.0  # of real time, for all that runs meanwhile

_handlers = plain._Loop()


def program() -> str:
    """Returns the path of the program."""
    if path := os.environ.get("KINESIN_BIN"):
        return path
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("kinesin_server").path())
    if path := shutil.which("kinesin"):
        return path
    raise RuntimeError("there is no kinesin program: want the package kinesin_server of a release, KINESIN_BIN, or kinesin in PATH")


class Server:
    """A server with its data in memory, whose time stands still. With async, advance and worker are async, too."""

    url: str

    def __enter__(self) -> Server:
        self._process = subprocess.Popen([program(), "test-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"kinesin test-server ended with exit code {self._process.wait()}")
        self.url = json.loads(said)["url"]
        self._calls = httpx.Client(base_url=self.url + "/test", timeout=ADVANCE_MAX_S, trust_env=False, verify=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.close()
        self._process.kill()
        self._process.communicate()

    def advance(self, by: Duration = "0s", *, to: Time | None = None) -> datetime:
        """Lets time pass, and returns the time when all that was due by then has been run. Without arguments no time passes."""
        return self._time("POST", "/advance", {"by": duration(by)} if to is None else {"to": instant(to)})

    def now(self) -> datetime:
        """Returns the server's time."""
        return self._time("GET", "/now")

    def _time(self, method: str, path: str, body: Any = None) -> datetime:
        try:
            answer = self._calls.request(method, path, json=body)
        except httpx.TimeoutException:
            raise Unavailable(f"an attempt has not ended within {ADVANCE_MAX_S:g} s of real time: does a handler wait for time to pass?")
        if answer.is_error:
            raise refusal(answer.status_code, answer.json())
        return parse_time(answer.json()["now"])

    @contextlib.contextmanager
    def worker(self, app: App | plain.App, **options: Any) -> Iterator[None]:
        """Has an app call this server, creates its lambdas, and runs its handlers meanwhile. The options are those of run."""
        working = _working(app._of if isinstance(app, plain.App) else app, self.url, options)
        _handlers.run(working.__aenter__())
        try:
            yield
        finally:
            _handlers.run(working.__aexit__(None, None, None))

    async def __aenter__(self) -> AsyncServer:
        return AsyncServer(self.__enter__())

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


class AsyncServer:
    """What async with Server() gives."""

    def __init__(self, of: Server) -> None:
        self._of, self.url, self.now = of, of.url, of.now

    async def advance(self, by: Duration = "0s", *, to: Time | None = None) -> datetime:
        """As Server.advance."""
        return await asyncio.to_thread(self._of.advance, by, to=to)

    def worker(self, app: App, **options: Any) -> contextlib.AbstractAsyncContextManager[None]:
        """As Server.worker; the handlers run in the event loop of the test."""
        return _working(app, self.url, options)


@contextlib.asynccontextmanager
async def _working(app: App, url: str, options: dict[str, Any]) -> AsyncIterator[None]:
    before, app.transport.urls = app.transport.urls, [url]
    try:
        await app.ensure()
        run = asyncio.create_task(app.run(**{"signals": False, "grace": "0s", **options}))
        try:
            await asyncio.sleep(0)  # it has begun, so that stop stops it
            while not run.done() and app._running and not app._running.worker.session:
                await asyncio.sleep(0.001)
            yield
        finally:
            app.stop()
            await run
    finally:
        app.transport.urls = before
