"""Servers for tests: the real program, from KINESIN_BIN or PATH."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import re
import shutil
import signal
import subprocess

import kinesin
import pytest

pytest_plugins = ["kinesin._pytest"]
PROGRAM = os.environ.get("KINESIN_BIN") or shutil.which("kinesin")
_numbers = itertools.count(1)


class Server:
    """A server with data in a folder. It keeps its port when it is started again."""

    def __init__(self, data, *args):
        self.data, self.args, self.listen, self.process = data, args, "127.0.0.1:0", None

    def start(self):
        if PROGRAM is None:
            pytest.fail("no program: set KINESIN_BIN to the kinesin program, or put it into PATH")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", str(self.data), "--listen", self.listen, *self.args],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        for line in self.process.stdout:
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                self.listen, self.url = found.group(1), found.group(0)
                return self
        raise AssertionError(f"the server ended with {self.process.wait()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("shared")).start()
    yield server
    server.close()


@pytest.fixture
def own(tmp_path):
    server = Server(tmp_path / "data").start()
    yield server
    server.close()


@pytest.fixture
def app(shared):
    return kinesin.App(shared.url)


@pytest.fixture
def name():
    """A lambda that no other test has."""
    return f"l{next(_numbers)}"


def on_loop(test):
    """Runs an async test."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def bounded():
            await asyncio.wait_for(test(*args, **kwargs), 30)

        asyncio.run(bounded())

    return run


@contextlib.asynccontextmanager
async def working(app, **options):
    """Runs the worker of an app meanwhile."""
    await app.ensure()
    run = asyncio.create_task(app.run(**{"signals": False, "grace": "0s", "kill_after": "1s", **options}))
    await asyncio.sleep(0)  # it has begun, so that stop stops it
    try:
        yield run
    finally:
        app.stop()
        await run


async def until(condition, within_s=8.0):
    """Looks until a condition holds that another process or thread brings about."""
    end = asyncio.get_running_loop().time() + within_s
    while not (value := await condition() if asyncio.iscoroutinefunction(condition) else condition()):
        assert asyncio.get_running_loop().time() < end, "it did not come about"
        await asyncio.sleep(0.01)
    return value


class Proxy:
    """Stands between a client and its server. hold keeps answers back; cut ends connections, and refuses new ones."""

    def __init__(self, server):
        host, port = server.listen.split(":")
        self._target = host, int(port)
        self.open, self.refuses, self.swallow = asyncio.Event(), False, b""
        self.open.set()
        self.swallowed = asyncio.Event()
        self._writers = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.open.set()
        self.cut()
        self._server.close()

    def cut(self):
        self.refuses = True
        for w in list(self._writers):
            w.transport.abort()

    async def _serve(self, reader, writer):
        if self.refuses:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, up_writer}
        state = {"swallow": False}

        async def pump(source, target, answers):
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    if not answers and self.swallow and self.swallow in data:
                        state["swallow"], self.swallow = True, b""
                    if answers:
                        await self.open.wait()
                        if state["swallow"]:  # the call was done, and its answer is lost
                            self.swallowed.set()
                            break
                    target.write(data)
                    await target.drain()
            for w in (writer, up_writer):
                w.transport.abort()

        await asyncio.gather(pump(reader, up_writer, False), pump(up_reader, writer, True))
        self._writers -= {writer, up_writer}
