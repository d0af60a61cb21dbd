"""Celery's decorator and calls."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from kinesin.celery import app, shared_task

ran = []


@shared_task
def add(a, b=0):
    ran.append(a + b)
    return a + b


@shared_task(name="shop.fails", bind=True, max_retries=2)
def fails(task):
    ran.append(task.attempt)
    raise ValueError("no")


def test_calls(kinesin_server):
    ran.clear()
    assert add(1, b=2) == 3 and ran.pop() == 3 and add.__name__ == "add"
    with kinesin_server.worker(app):
        now = kinesin_server.now()
        add.delay(1, b=1)
        add.apply_async((2,), countdown=3600, task_id="two")
        assert add.apply_async((2,), countdown=3600, task_id="two").duplicate
        add.apply_async((3,), {"b": 3}, eta=now + timedelta(days=1))
        kinesin_server.advance()
        assert ran == [2]
        kinesin_server.advance("1h")
        assert ran == [2, 2]
        kinesin_server.advance("23h")
        assert ran == [2, 2, 6]


def test_retries_are_bounded(kinesin_server):
    ran.clear()
    with kinesin_server.worker(app):
        made = fails.delay()
        kinesin_server.advance("7d")
        assert (ran, app.get(made.id).state) == ([1, 2, 3], "dead")


def test_expires(kinesin_server):
    app._of.transport.urls, before = [kinesin_server.url], app._of.transport.urls
    app.ensure()
    soon = datetime.now(timezone.utc)
    for expires in (60, soon + timedelta(minutes=1)):
        task = app.get(add.apply_async(expires=expires).id)
        assert soon < task.start_before < soon + timedelta(minutes=2)
    app._of.transport.urls = before
