"""Tests in virtual time."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import kinesin
import kinesin.testing
import pytest
from conftest import on_loop

ELSEWHERE = "http://127.0.0.1:1"  # where the program under test finds its server in production


def test_a_reminder_in_30_days(kinesin_server):
    app, mailed = kinesin.plain.App(ELSEWHERE), []

    @app.handler("remind")
    def remind(task: kinesin.Task[int]):
        mailed.append((task.payload, task.lateness))

    with kinesin_server.worker(app):
        begun, real = kinesin_server.now(), time.monotonic()
        remind.schedule(42, delay="30d")
        kinesin_server.advance("29d")
        assert not mailed
        assert kinesin_server.advance("1d") == begun + timedelta(days=30)
        assert mailed == [(42, timedelta())]
        assert time.monotonic() - real < 5
    with pytest.raises(kinesin.Unavailable):
        kinesin.plain.App(ELSEWHERE, tries=1).count()


@on_loop
async def test_retries_wait_in_virtual_time():
    app, attempts = kinesin.App(ELSEWHERE), []

    @app.handler("flaky", max_attempts=5, backoff=("1h", "24h"))
    async def flaky(task):
        attempts.append(task.attempt)
        if task.attempt == 1:
            raise ValueError("not yet")
        if task.attempt == 2:
            raise kinesin.Snooze("7d")
        return "done"

    async with kinesin.testing.Server() as server, server.worker(app):
        made = await flaky.schedule()
        await server.advance()
        assert attempts == [1]
        await server.advance("2h")
        assert attempts == [1, 2]
        await server.advance("7d")
        task = await app.wait(made.id, "1s")
        assert (attempts, task.state, task.result, task.failures) == ([1, 2, 3], "success", "done", 1)


def test_a_cron_of_a_month(kinesin_server):
    app, nominal = kinesin.plain.App(ELSEWHERE), []
    app.handler("report")(lambda task: nominal.append(task.occurrence.nominal))
    with kinesin_server.worker(app):
        app.crons.create("daily", "report", "30 2 * * *", zone="Europe/Berlin")
        kinesin_server.advance("30d")
    assert len(nominal) == 30 and nominal == sorted(nominal)


def test_what_the_worker_was_refused_is_said(kinesin_server):
    app = kinesin.plain.App(ELSEWHERE)
    app.handler("l")(lambda task: None)
    with pytest.raises(kinesin.Invalid), kinesin_server.worker(app, lease="1s"):
        pass


def test_time_moves_to_a_time(kinesin_server):
    then = kinesin_server.now() + timedelta(days=1)
    assert kinesin_server.advance(to=then) == then == kinesin_server.now()
    for nonsense, want in [({"to": "tomorrow"}, "want a time"), ({"by": "1 parsec"}, "want a timedelta")]:
        with pytest.raises(kinesin.Error, match=want):
            kinesin_server.advance(**nonsense)


def test_a_handler_that_waits_for_time_is_said(kinesin_server):
    app, end = kinesin.plain.App(ELSEWHERE), threading.Event()
    app.handler("waits")(lambda task: end.wait(20))
    kinesin_server._calls.timeout = 0.5
    with kinesin_server.worker(app):
        app.lambda_("waits").schedule()
        with pytest.raises(kinesin.Unavailable, match="does a handler wait"):
            kinesin_server.advance()
        end.set()
