"""Workers: what handlers say, how they stop, and what survives a fault."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import kinesin
import pytest
from conftest import Proxy, on_loop, until, working
from kinesin import _worker


@dataclasses.dataclass
class Reminder:
    user: int


async def ended(app, id):
    return await app.wait(id, "20s")


@on_loop
async def test_a_handler_gets_its_task_and_its_result_is_kept(app, name):
    seen = []

    @app.handler(name, max_attempts=8, timeout="1m")
    async def send(task: kinesin.Task[Reminder]):
        seen.append(task)
        return {"user": task.payload.user}

    async with working(app, slots=2):
        made = await send.schedule(Reminder(42), delay="100ms", key="k", tags={"a": "b"}, collection="c")
        task = await ended(app, made.id)
    (got,) = seen
    assert (task.state, task.result, task.attempts[0].outcome) == ("success", {"user": 42}, "success")
    assert (got.id, got.payload, got.attempt, got.max_attempts, got.key, got.tags, got.collection) == (
        made.id, Reminder(42), 1, 8, "k", {"a": "b"}, "c",
    )  # fmt: skip
    assert got.due == made.due and got.timeout == timedelta(minutes=1)
    assert timedelta() <= got.lateness < timedelta(seconds=2) and got.deadline > got.due + timedelta(seconds=59)
    assert "42" not in repr(got).replace(made.id, "").split("due=")[0]  # no payload


@on_loop
async def test_no_task_starts_early(app, name):
    starts = []

    @app.handler(name)
    async def send(task: kinesin.Task[int]):
        starts.append(time.time() - task.due.timestamp())

    async with working(app):
        await send.schedule_many(range(20), delay="300ms")
        await until(lambda: len(starts) == 20)
    assert min(starts) >= 0


@on_loop
async def test_outcomes(app, name):
    calls = {}

    @app.handler(name, max_attempts=2, backoff=("1ms", "2ms"))
    async def work(task: kinesin.Task[str]):
        n = calls[task.payload] = calls.get(task.payload, 0) + 1
        if task.payload == "fails":
            raise ValueError("no stamps")
        if task.payload == "fatal":
            raise kinesin.Fatal("user 42 does not exist")
        if task.payload == "snooze" and n == 1:
            raise kinesin.Snooze("10ms")
        if task.payload == "release" and n == 1:
            raise kinesin.Release()
        if task.payload == "large":
            return "x" * 40_000
        if task.payload == "unreadable":
            return object()
        if task.payload == "no unit":
            raise kinesin.Snooze(5)
        if task.payload == "exit":
            sys.exit(3)

    async with working(app):
        payloads = ["fails", "fatal", "snooze", "release", "large", "unreadable", "exit", "no unit"]
        made = await work.schedule_many(payloads)
        tasks = dict(zip(payloads, await asyncio.gather(*(ended(app, m.id) for m in made))))
    assert (tasks["fails"].state, tasks["fails"].failures) == ("dead", 2)
    assert tasks["fails"].attempts[0].error.startswith("ValueError: no stamps (test_worker.py:")
    assert (tasks["fatal"].state, tasks["fatal"].attempts[0].error) == ("fatal_failure", "user 42 does not exist")
    assert (tasks["snooze"].state, tasks["snooze"].failures, tasks["snooze"].attempts[0].outcome) == ("success", 0, "snoozed")
    assert (tasks["release"].state, tasks["release"].failures, tasks["release"].attempts[0].outcome) == ("success", 0, "released")
    assert tasks["large"].state == "dead" and "want at most 32768" in tasks["large"].attempts[0].error
    assert tasks["unreadable"].state == "dead" and tasks["exit"].state == "dead"
    assert "want a timedelta" in tasks["no unit"].attempts[0].error


@on_loop
async def test_a_payload_that_does_not_fit_is_fatal_and_is_not_shown(app, name):
    @app.handler(name)
    async def send(task: kinesin.Task[Reminder]):
        raise AssertionError("it ran")

    async with working(app):
        made = await app.lambda_(name).schedule({"user": "secret"})
        task = await ended(app, made.id)
    assert task.state == "fatal_failure" and "payload.user" in task.attempts[0].error and "secret" not in task.attempts[0].error


@on_loop
async def test_kinds_of_payloads(app, name):
    import pydantic

    class Model(pydantic.BaseModel):
        n: int

    Model.__module__, globals()["Model"] = __name__, Model
    seen = []
    lambdas = []
    for i, kind in enumerate([bytes, dict, str, list[int], Model, int | None]):

        async def handle(task):
            seen.append(task.payload)

        handle.__annotations__["task"] = kinesin.Task[kind]
        lambdas.append(app.handler(f"{name}-{i}")(handle))
    payloads = [b"\x00\xff", {"a": [1]}, "text", [1, 2], Model(n=1), None]
    async with working(app):
        for lambda_, payload in zip(lambdas, payloads):
            await ended(app, (await lambda_.schedule(payload)).id)
        await ended(app, (await lambdas[0].schedule(b'"json"')).id)
    assert seen == [*payloads, b'"json"']


@on_loop
async def test_no_more_run_than_slots(app, name):
    running, most = 0, {}
    other = name + "-own"

    async def count(task):
        nonlocal running
        running += 1
        most[task.lambda_] = max(most.get(task.lambda_, 0), running)
        await asyncio.sleep(0.02)
        running -= 1

    many = app.handler(name)(count)

    @app.handler(other, concurrency=1)
    async def one(task):
        pass

    async with working(app, slots=3):
        made = await many.schedule_many(range(30))
        await ended(app, (await one.schedule(1)).id)
        await asyncio.gather(*(ended(app, m.id) for m in made))
    assert most[name] == 3


@on_loop
async def test_timeout_and_cancel_stop_a_handler(app, name):
    causes, running = {}, asyncio.Event()

    @app.handler(name, max_attempts=1)
    async def work(task: kinesin.Task[str]):
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            causes[task.payload] = task.stopping

    async with working(app, lease="3s"):
        late = await ended(app, (await work.schedule("late", timeout="1s")).id)
        assert late.state == "dead" and late.attempts[0].error.startswith("timed out after 1s")
        running.clear()
        made = await work.schedule("cancel")
        await running.wait()
        assert (await app.cancel(made.id)).outcome == "cancelling"
        assert (await ended(app, made.id)).state == "cancelled"
    assert causes == {"late": "timeout", "cancel": "cancelled"}


@on_loop
async def test_plain_functions_run_in_threads_and_are_told_to_stop(app, name):
    threads = set()

    @app.handler(name, max_attempts=1)
    def work(task: kinesin.Task[str]):
        threads.add(threading.current_thread())
        if task.payload == "stops":
            assert task.wait_stopping(10)
            return task.stopping  # it has done its work: it is believed
        if task.payload == "fails":
            raise KeyError("x")
        return 1

    async with working(app, slots=5):
        made = await work.schedule_many(["stops", "fails", "a", "b"], timeout="1s")
        tasks = await asyncio.gather(*(ended(app, m.id) for m in made))
    assert [t.state for t in tasks] == ["success", "dead", "success", "success"]
    assert tasks[0].result == "timeout" and threading.main_thread() not in threads
    await until(lambda: not any(t.is_alive() for t in threads))


def in_process(task: kinesin.Task[str]):
    if task.payload == "hangs":
        while True:
            time.sleep(60)
    if task.payload == "dies":
        os._exit(7)
    if task.payload == "fails":
        raise ValueError("no stamps")
    if task.payload == "snoozes" and task.attempt == 1:
        raise kinesin.Snooze("1ms")
    return os.getpid()


@on_loop
async def test_processes(app, name):
    work = app.handler(name, max_attempts=1, processes=True)(in_process)
    async with working(app, slots=4):
        made = [await work.schedule(p, timeout="3s" if p == "hangs" else "20s") for p in ("ok", "hangs", "dies", "fails", "snoozes")]
        ok, hangs, dies, fails, snoozes = await asyncio.gather(*(ended(app, m.id) for m in made))
    assert ok.state == "success" and ok.result != os.getpid()
    assert hangs.state == "dead" and "timed out" in hangs.attempts[0].error
    assert dies.state == "dead" and "exit code 7" in dies.attempts[0].error
    assert fails.attempts[0].error.startswith("ValueError: no stamps")
    assert snoozes.state == "success" and snoozes.failures == 0


@on_loop
async def test_middleware_and_traces(app, name):
    trace = pytest.importorskip("opentelemetry.trace")
    tracer, order = pytest.importorskip("opentelemetry.sdk.trace").TracerProvider().get_tracer("test"), []

    @app.handler(name)
    def work(task):
        order.append(("handler", trace.get_current_span().get_span_context().trace_id))
        return 1

    @app.middleware
    async def outer(task, call_next):
        order.append("outer")
        return await call_next(task) + 1

    @app.middleware
    async def inner(task, call_next):
        order.append("inner")
        return await call_next(task)

    async with working(app):
        with tracer.start_as_current_span("request") as span:
            made = await work.schedule(1)
        task = await ended(app, made.id)
    assert task.result == 2 and order == ["outer", "inner", ("handler", span.get_span_context().trace_id)]


@on_loop
async def test_a_handler_that_blocks_the_event_loop_does_not_stop_heartbeats(app, name):
    @app.handler(name, max_attempts=1)
    async def work(task):
        time.sleep(4.5)  # longer than the lease
        return "done"

    async with working(app, lease="3s"):
        task = await ended(app, (await work.schedule(1)).id)
    assert (task.state, task.attempt, task.worker_lost) == ("success", 1, 0)


@on_loop
async def test_a_server_that_is_killed_and_started_again(own, name, caplog):
    app, release = kinesin.App(own.url), asyncio.Event()
    runs, waits = {}, 0

    @app.handler(name)
    async def work(task: kinesin.Task[int]):
        nonlocal waits
        runs[task.payload] = runs.get(task.payload, 0) + 1
        if task.payload < 20:
            waits += 1
            await release.wait()
            waits -= 1
        return task.payload

    async with working(app, slots=20, grace="5s", lease="6s"):
        made = await work.schedule_many(range(60))
        await until(lambda: waits == 20 or len(runs) == 60)
        own.kill()
        await until(lambda: "heartbeat failed" in caplog.text)
        release.set()  # these end while no server answers
        await until(lambda: waits == 0)
        own.start()
        tasks = await asyncio.gather(*(ended(app, m.id) for m in made))
    assert {t.state for t in tasks} == {"success"} and {t.worker_lost for t in tasks} == {0}
    assert runs == {n: 1 for n in range(60)}


@on_loop
@pytest.mark.parametrize("fault", ["cut", "hang"])
async def test_a_lost_lease_stops_handlers_and_the_worker_registers_again(own, name, fault):
    app = kinesin.App(own.url)
    causes, attempts = [], []
    async with Proxy(own) as proxy:
        worker = kinesin.App(proxy.url)

        @worker.handler(name)
        async def work(task: kinesin.Task[int]):
            attempts.append(task.attempt)
            try:
                if task.attempt == 1:
                    await asyncio.sleep(60)
            finally:
                causes.append(task.stopping)

        async with working(worker, lease="3s", grace="5s"):
            made = await app.lambda_(name).schedule(1)
            await until(lambda: attempts)
            proxy.cut() if fault == "cut" else proxy.open.clear()
            await until(lambda: causes)
            assert causes == ["lease_lost"]
            proxy.refuses = False
            proxy.open.set()
            task = await ended(app, made.id)
            assert (task.state, attempts) == ("success", [1, 2])


@on_loop
async def test_a_server_that_forgot_the_lease(own, name, tmp_path):
    app, states = kinesin.App(own.url), []

    @app.handler(name)
    async def work(task: kinesin.Task[int]):
        states.append("began")
        try:
            if len(states) == 1:
                await asyncio.sleep(60)
        finally:
            states.append(task.stopping)

    async with working(app, lease="3s"):
        await work.schedule(1)
        await until(lambda: states)
        own.kill()
        own.data = tmp_path / "other"
        own.start()
        await app.ensure()
        made = await work.schedule(2)
        await until(lambda: "lease_lost" in states)
        assert (await ended(app, made.id)).state == "success"


@on_loop
async def test_an_answer_to_results_that_is_lost(own, name):
    async with Proxy(own) as proxy:
        app, runs = kinesin.App(proxy.url), []

        @app.handler(name)
        async def work(task: kinesin.Task[int]):
            if not runs:
                proxy.swallow = b"POST /v1/work/results"
            runs.append(task.attempt)
            return 1

        async with working(app, grace="5s"):
            task = await ended(kinesin.App(own.url), (await work.schedule(1)).id)
            await proxy.swallowed.wait()
        assert (task.state, task.attempt, runs) == ("success", 1, [1])


@on_loop
async def test_an_answer_to_a_claim_that_is_lost(own, name):
    async with Proxy(own) as proxy:
        app, runs = kinesin.App(proxy.url), []
        proxy.swallow = b"POST /v1/work/claim"

        @app.handler(name)
        async def work(task):
            runs.append(task.attempt)

        async with working(app, grace="5s"):
            await until(lambda: not proxy.swallow)
            made = await kinesin.App(own.url).lambda_(name).schedule()
            await proxy.swallowed.wait()
            await until(lambda: runs)  # the server alone would wait for 11 s
            task = await ended(kinesin.App(own.url), made.id)
        assert (task.state, task.failures, len(runs)) == ("success", 0, 1)


@on_loop
async def test_a_result_that_the_server_refuses_is_a_failure(app, name):
    @app.handler(name, max_attempts=1)
    async def work(task: kinesin.Task[str]):
        if task.payload == "bad":
            task.then(kinesin.Item(name, {"delay": "5 parsecs"}))

    async with working(app):
        made = await work.schedule_many(["bad", "good"])
        bad, good = [await ended(app, m.id) for m in made]
    assert (bad.state, good.state) == ("dead", "success")
    assert "the server refused the result" in bad.attempts[0].error and "delay" in bad.attempts[0].error


@on_loop
async def test_results_of_before_the_loss_are_kept_by_the_next_registration(own, name):
    """Only results hang: the handler has ended when the lease is lost, and must not run again."""
    async with Proxy(own) as proxy:
        app, runs = kinesin.App(proxy.url), []

        @app.handler(name)
        async def work(task: kinesin.Task[int]):
            runs.append(task.attempt)
            proxy.cut()
            return "kept"

        async with working(app, lease="3s", grace="5s"):
            made = await kinesin.App(own.url).lambda_(name).schedule(1)
            worker = await until(lambda: runs and app._running.worker)
            await until(lambda: worker.done.done() or worker.session.lost)
            proxy.refuses = False
            task = await ended(kinesin.App(own.url), made.id)
        assert (task.state, task.result, runs) == ("success", "kept", [1])


@on_loop
async def test_a_handler_that_goes_on_without_a_lease_ends_the_process(own, name):
    exits, let_go = [], threading.Event()
    async with Proxy(own) as proxy:
        app, running = kinesin.App(proxy.url), threading.Event()

        @app.handler(name)
        def work(task):
            running.set()
            let_go.wait(20)

        await app.ensure()
        await app.lambda_(name).schedule(1)
        run = asyncio.create_task(app.run(signals=False, lease="3s", exit_with=exits.append))
        await until(running.is_set)
        proxy.cut()
        with pytest.raises(kinesin.LeaseLost):
            await run
        let_go.set()
    assert exits == [1]


@on_loop
async def test_handlers_that_do_not_return_are_abandoned(app, name):
    let_go, running = threading.Event(), threading.Event()

    @app.handler(name)
    def work(task: kinesin.Task[int]):
        if task.attempt == 1:
            running.set()
            let_go.wait(20)

    await app.ensure()
    made = await work.schedule(1)
    run = asyncio.create_task(app.run(signals=False, grace="0s", kill_after="100ms"))
    await until(running.is_set)
    app.stop()
    with pytest.raises(kinesin.Abandoned):
        await run
    async with working(app):
        task = await ended(app, made.id)
    let_go.set()
    assert (task.state, task.failures, task.worker_lost) == ("success", 0, 0)


@on_loop
async def test_a_cancel_of_run_drains(app, name):
    running = asyncio.Event()

    @app.handler(name)
    async def work(task):
        running.set()
        await asyncio.sleep(0.2)
        return "finished"

    await app.ensure()
    made = await work.schedule(1)
    run = asyncio.create_task(app.run(signals=False))
    await running.wait()
    assert await workers_of(app, name) == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await ended(app, made.id)).result == "finished"
    assert await workers_of(app, name) == 0  # it has left


@on_loop
async def test_lambdas_that_are_missing_are_created(app, name):
    ran = []

    @app.handler(name, max_attempts=8)
    async def one(task):
        ran.append(task.payload)

    for handlers in (1, 2):  # the worker registers for none that exists, then for one that does not
        run = asyncio.create_task(app.run(signals=False))
        await until(lambda: app._running and app._running.worker.session)
        await app.lambda_(name).schedule(handlers)
        await until(lambda: handlers in ran)
        app.stop()
        await run
        if handlers == 1:
            other = app.handler(f"{name}-other")(one.function)
    assert (await other.schedule(3, delay="1h")).id
    settings = await app.transport.call("GET", f"/lambdas/{name}")
    assert settings["max_attempts"] == 8
    with pytest.raises(kinesin.UnknownLambda):
        await app.lambda_(f"{name}-nowhere").schedule(1)
    scheduled = app.handler(f"{name}-scheduled")(one.function)
    assert (await scheduled.schedule(4, delay="1h")).id
    many = app.handler(f"{name}-many")(one.function)
    with pytest.raises(kinesin.NotScheduled) as failed:
        await app.schedule_many([many.item(5, delay="1h"), app.lambda_(f"{name}-nowhere").item(6), many.item(7, delay="1h")])
    assert [type(r) for r in failed.value.results] == [kinesin.Scheduled, kinesin.UnknownLambda, kinesin.Scheduled]


async def workers_of(app, name):
    return (await app.transport.call("GET", f"/lambdas/{name}", params={"live": True}))["live"].get("workers")


@on_loop
async def test_what_has_not_started_is_given_back_or_cancelled(app, name, monkeypatch):
    class Held(_worker.Attempt):
        """Has to be held for long."""

        def __init__(self, *args):
            super().__init__(*args)
            self.claimed = dataclasses.replace(self.claimed, hold=timedelta(seconds=60))

    work = app.handler(name)(lambda task: "done")
    with monkeypatch.context() as patched:
        patched.setattr(_worker, "Attempt", Held)
        async with working(app, lease="3s"):
            made = await work.schedule_many(["a", "b"])
            await until(lambda: app._running.worker.session and len(app._running.worker.session.having("held")) == 2)
            await app.cancel(made[0].id)
            assert (await ended(app, made[0].id)).state == "cancelled"
    async with working(app):
        task = await ended(app, made[1].id)
    assert (task.state, task.failures, task.worker_lost, task.attempts[0].outcome) == ("success", 0, 0, "released")


@on_loop
async def test_an_attempt_that_no_longer_owns_its_task_is_stopped(app, name):
    causes, claims = [], []

    @app.handler(name)
    async def work(task):
        session = app._running.worker.session
        claims.extend(session.attempts)
        try:
            await asyncio.sleep(60)
        finally:
            causes.append(task.stopping)

    async with working(app, lease="3s"):
        made = await work.schedule(1)
        await until(lambda: claims)
        results = [{"claim": claims[0], "outcome": "success"}]  # somebody else ends it
        await app.transport.call("POST", "/work/results", {"worker": app._running.worker.session.worker, "results": results})
        await until(lambda: causes)
    task = await app.get(made.id)
    assert (causes, task.state, len(task.attempts)) == (["fenced"], "success", 1)


@on_loop
async def test_a_worker_stops_while_no_server_answers(own, name):
    app = kinesin.App(own.url)
    app.handler(name)(lambda task: None)
    async with working(app) as run:
        await until(lambda: app._running.worker.session)
        own.kill()
        app.stop()
        await asyncio.wait_for(run, 5)


@on_loop
async def test_refusals_end_run(own, name):
    app = kinesin.App(own.url)
    app.handler(name)(lambda task: None)
    await app.ensure()
    with pytest.raises(kinesin.Invalid):
        await app.run(signals=False, lease="1s")
    with pytest.raises(kinesin.Invalid, match="no handler"):
        await kinesin.App(own.url).run()


PROGRAM = """
    import asyncio, sys, time, kinesin
    app = kinesin.App(sys.argv[1])

    @app.handler(sys.argv[2])
    async def work(task: kinesin.Task[float]):
        print("began", task.attempt, flush=True)
        await asyncio.sleep(task.payload if task.attempt == 1 else 0)

    async def main():
        await app.ensure()
        await app.run(slots=2, grace=sys.argv[3])
        print("left", flush=True)

    asyncio.run(main())
"""


@on_loop
async def test_the_program_of_the_readme(shared):
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace("http://127.0.0.1:7070", shared.url).replace("30d", "0s")
    program = await _program("-c", code)
    assert (await program.stdout.readline()).startswith(b"user 42, attempt 1, 0:00:0")
    program.terminate()
    assert await program.wait() == 0


@on_loop
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains(app, name, number):
    await app.transport.call("POST", "/lambdas", {"name": name})
    work = app.lambda_(name)
    for grace in ("5s", "0s"):
        made = await work.schedule(0.5 if grace == "5s" else 60)
        program = await _program("-c", textwrap.dedent(PROGRAM), app.transport.urls[0], name, grace)
        assert await program.stdout.readline() == b"began 1\n"
        program.send_signal(number)
        assert (await program.stdout.read()) == b"left\n" and await program.wait() == 0
        task = await app.get(made.id)
        if grace == "5s":
            assert task.state == "success"
        else:  # it is given back, and no failure
            assert (task.attempts[0].outcome, task.failures) == ("released", 0)
            await app.cancel(made.id)


async def _program(*args):
    path = {"PYTHONPATH": os.path.dirname(os.path.dirname(kinesin.__file__)), "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(sys.executable, *args, stdout=subprocess.PIPE, env={**os.environ, **path})
