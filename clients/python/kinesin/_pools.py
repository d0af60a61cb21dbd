"""Where plain functions run: daemon threads, and processes that can be ended."""

from __future__ import annotations

import contextvars
import functools
import importlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ._errors import Fatal, Release, Snooze
from ._task import Task


class Threads:
    """A pool of daemon threads, as many as run at a time. A handler that never returns does not hold up the end of the process."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._idle, self._all = threading.Semaphore(0), 0

    def submit(self, f: Callable[[], Any]) -> Future[Any]:
        """Runs a function, with the context variables of its caller. One thread calls submit."""
        if not self._idle.acquire(blocking=False):
            self._all += 1
            threading.Thread(target=self._run, name="kinesin-handler", daemon=True).start()
        future: Future[Any] = Future()
        self._jobs.put((future, functools.partial(contextvars.copy_context().run, f)))
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, f = job
            try:
                told = functools.partial(future.set_result, f())
            except BaseException as e:
                told = functools.partial(future.set_exception, e)
            self._idle.release()  # before the future is done, so that what comes next takes this thread
            told()
            del job, future, f, told

    def close(self) -> None:
        for _ in range(self._all):
            self._jobs.put(None)


class Processes:
    """Processes that run one handler at a time each. One that has to stop gets SIGTERM, and SIGKILL after kill_after_s."""

    def __init__(self, kill_after_s: float) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._idle: list[tuple[Any, Any]] = []
        self._kill_after_s = kill_after_s

    def run(self, function: Callable[..., Any], task: Task[Any]) -> Any:
        """Runs a handler in a process, called in a thread."""
        try:
            process, pipe = self._idle.pop()
        except IndexError:
            process, pipe = None, None
        if process is None or not process.is_alive():
            pipe, child = self._spawn.Pipe()
            process = self._spawn.Process(target=_child, args=(child,), daemon=True)
            process.start()
            child.close()
        ended = threading.Event()
        threading.Thread(target=self._end, args=(process, task, ended), daemon=True).start()
        try:
            pipe.send((function.__module__, function.__qualname__, task))
            value, error, following = pipe.recv()
        except (EOFError, OSError):
            process.join(1)
            pipe.close()
            raise RuntimeError(f"the process of the handler ended with exit code {process.exitcode}") from None
        finally:
            ended.set()
            task._stop.event.set()  # lets the watcher go; the cause stays as it is
        if task.stopping:  # it may get a signal yet
            pipe.close()
        else:
            self._idle.append((process, pipe))
        task.following.extend(following)
        if error is not None:
            raise error
        return value

    def _end(self, process: Any, task: Task[Any], ended: threading.Event) -> None:
        task._stop.event.wait()
        if not ended.is_set():
            process.terminate()
            if not ended.wait(self._kill_after_s):
                process.kill()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


class HandlerFailed(Exception):
    """What a handler in a process raised, as text."""


def _child(pipe: Any) -> None:
    from ._worker import error_text

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's: it drains
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            module, name, task = pipe.recv()
        except EOFError:
            return
        value, error = None, None
        try:
            target: Any = importlib.import_module(module)
            for part in name.split("."):
                target = getattr(target, part)
            value = getattr(target, "function", target)(task)
        except BaseException as e:
            error = e if isinstance(e, (Fatal, Release, Snooze)) else HandlerFailed(error_text(e))
        try:
            pipe.send((value, error, task.following))
        except (EOFError, OSError):
            return
        except Exception as e:  # the value cannot be pickled
            pipe.send((None, HandlerFailed(f"the result cannot leave its process: {type(e).__name__}"), []))


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
