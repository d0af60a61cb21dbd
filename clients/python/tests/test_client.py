"""What programs call."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import re
import subprocess
import sys
import uuid
from datetime import datetime, timedelta, timezone

import kinesin
import pytest
from conftest import Proxy, on_loop, until, working
from kinesin import _wire


@dataclasses.dataclass
class Reminder:
    user: int
    note: str | None = None


async def lambda_of(app, name, **defaults):
    await app.transport.call("POST", "/lambdas", {"name": name})
    return app.lambda_(name, **defaults)


@on_loop
async def test_a_task_has_what_it_was_scheduled_with(app, name):
    send = await lambda_of(app, name, max_attempts=8)
    due = datetime(2030, 3, 1, 9, 0, tzinfo=timezone(timedelta(hours=1)))
    made = await send.schedule(
        Reminder(42), due=due, key="reminder-42", priority="high", collection="spring", limit_key="acme", timeout=timedelta(seconds=30),
        backoff=("1s", "10m"), start_before=due + timedelta(days=1), tags={"a": "b"},
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )  # fmt: skip
    task = await app.get(send.by_key("reminder-42"), payload=True)
    assert (task.id, task.state, task.due, task.key, task.priority) == (made.id, "scheduled", due, "reminder-42", "high")
    assert (task.collection, task.limit_key, task.tags, task.max_attempts) == ("spring", "acme", {"a": "b"}, 8)
    assert (task.timeout, task.backoff_min, task.backoff_max) == (timedelta(seconds=30), timedelta(seconds=1), timedelta(minutes=10))
    assert (task.payload, task.lambda_) == ({"user": 42, "note": None}, name)
    assert task.start_before == due + timedelta(days=1) and task.traceparent.startswith("00-4bf9")


@on_loop
async def test_keys_and_conflicts(app, name):
    send = await lambda_of(app, name)
    first = await send.schedule({"n": 1}, delay="1h", key="k")
    again = await send.schedule({"n": 1}, delay="2h", key="k")
    assert again.duplicate and again.id == first.id
    with pytest.raises(kinesin.KeyConflict) as refused:
        await send.schedule({"n": 2}, key="k")
    assert refused.value.reason == "key_conflict" and "on_conflict" in refused.value.detail
    with pytest.raises(kinesin.KeyConflict):
        await send.schedule({"n": 1}, key="k", on_conflict="reject")
    replaced = await send.schedule({"n": 3}, delay="3h", key="k", on_conflict="replace")
    assert replaced.replaced and replaced.id == first.id


@on_loop
async def test_batches(app, name):
    send = await lambda_of(app, name)
    made = await send.schedule_many([{"n": n} for n in range(2500)], delay="1h", collection="c")
    assert len({m.id for m in made}) == 2500
    assert (await app.count(f"lambda={name} and collection=c", exact=True)).count == 2500
    items = [send.item(1, delay="1h"), send.item(2, priority="urgent"), app.lambda_("nobody").item(3)]
    with pytest.raises(kinesin.NotScheduled) as failed:
        await app.schedule_many(items)
    kinds = [type(r) for r in failed.value.results]
    assert kinds == [kinesin.Scheduled, kinesin.Invalid, kinesin.UnknownLambda] and failed.value.reason == "invalid"


@on_loop
async def test_changes(app, name):
    send = await lambda_of(app, name)
    made = await send.schedule({"n": 1}, delay="1h", key="k")
    moved = await app.reschedule(made.id, delay="2h")
    assert moved.due > made.due + timedelta(minutes=59)
    with pytest.raises(kinesin.StaleSeq):
        await app.reschedule(made.id, delay="3h", if_seq=moved.seq - 1)
    changed = await app.update(made.id, {"n": 2}, max_attempts=3, if_seq=moved.seq)
    task = await app.get(made.id, payload=True)
    assert (task.payload, task.max_attempts, task.seq) == ({"n": 2}, 3, changed.seq)
    await app.update(made.id, reset=["max_attempts"])
    assert (await app.get(made.id)).max_attempts == 10
    assert (await app.cancel(send.by_key("k"))).outcome == "cancelled"
    with pytest.raises(kinesin.TooLate):
        await app.cancel(made.id)
    assert (await app.wait(made.id, "1s")).state == "cancelled"
    assert (await app.redrive(made.id, {"n": 5})).state in ("scheduled", "enqueued")
    later = await send.schedule(1, delay="1h")
    assert (await app.run_now(later.id)).due < later.due
    with pytest.raises(TimeoutError):
        await app.wait(later.id, "10ms")
    with pytest.raises(kinesin.NotFound):
        await app.get("k3doesnotexist")


@on_loop
async def test_lists(app, name):
    send = await lambda_of(app, name)
    await send.schedule_many(range(5), delay="1h", tags={"t": "x"})
    assert len([t async for t in app.list(name)]) == 5
    assert len([t async for t in app.list(where=f"lambda={name} and tag.t=x", order="-created", limit=3)]) == 3
    assert [t async for t in app.list(name, state="dead")] == []
    with pytest.raises(kinesin.Invalid):
        await app.count("nonsense=1")


@on_loop
async def test_crons(app, name):
    await lambda_of(app, name)
    cron = await app.crons.create(f"cron-{name}", name, "30 2 * * *", {"at": "{{nominal}}"}, zone="Europe/Berlin", jitter="1m")
    assert cron.next and cron.zone == "Europe/Berlin" and cron.jitter == timedelta(minutes=1)
    changed = await app.crons.update(cron.name, cron.version, name, "0 3 * * *")
    assert changed.version > cron.version
    with pytest.raises(kinesin.Exists):
        await app.crons.create(cron.name, name, "@daily")
    assert (await app.crons.pause(cron.name, "maintenance")).pause.reason == "maintenance"
    assert (await app.crons.resume(cron.name)).pause is None
    id = await app.crons.run(cron.name)
    assert (await app.get(id)).lambda_ == name
    past = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert (await app.crons.backfill(cron.name, past, past + timedelta(days=3), dry_run=True)).matched == 3
    assert [c.name for c in await app.crons.list(name)] == [cron.name]
    assert isinstance(await app.crons.history(cron.name), list)
    await app.crons.delete(cron.name)
    with pytest.raises(kinesin.NotFound):
        await app.crons.get(cron.name)


@on_loop
async def test_chains_and_groups(app, name):
    seen = []

    @app.handler(name, max_attempts=1)
    async def step(task: kinesin.Task[str]):
        seen.append((task.payload, task.parent and (task.parent.edge, task.parent.result), task.group and task.group.ended))
        if task.payload == "charge":
            task.then(step.item("added"))
            return {"paid": 1}
        if task.payload == "fails":
            raise ValueError("no")

    async with working(app):
        made = await app.schedule(kinesin.chain(step.item("charge"), step.item("ship", delay="0s"), finally_=[step.item("over")]))
        await until(lambda: len(seen) == 4)
        assert ("ship", ("then", {"paid": 1}), None) in seen and ("over", ("finally", None), None) in seen
        assert "added" in [s[0] for s in seen]
        chain = await app.chains.get(made.id)
        assert chain.id == made.id and chain.root.followups[0].lambda_ == name
        await app.schedule(step.item("fails").then(step.item("never")).else_(step.item("sorry")))
        await until(lambda: any(s[0] == "sorry" and s[1][0] == "else" for s in seen))
        group = await app.groups.schedule([step.item(f"m{n}") for n in range(3)], then=[step.item("report")])
        await until(lambda: any(s[0] == "report" and s[2] == {"success": 3} for s in seen))
        assert [m.index async for m in app.groups.members(group.id)] == [0, 1, 2]
        assert (await app.groups.get(group.id)).state == "done"
    later = await app.schedule(step.item("x", delay="1h").then(step.item("y")))
    assert (await app.chains.pause(later.id)).changed >= 1
    await app.chains.resume(later.id)
    await app.chains.cancel(later.id)
    open_ = await app.groups.create(then=[step.item("z")])
    assert await app.groups.add(open_.id, 0, [step.item("m")]) == 1
    assert await app.groups.add(open_.id, 0, [step.item("m")]) == 1  # the same call again
    with pytest.raises(kinesin.StaleSeq):
        await app.groups.add(open_.id, 5, [step.item("m")])
    assert (await app.groups.cancel(open_.id)).state in ("sealed", "done")


def test_what_is_generated_is_up_to_date(shared, tmp_path):
    root = pathlib.Path(__file__).parents[3]
    client, page = tmp_path / "clients" / "python", tmp_path / "docs" / "reference" / "errors.md"
    (client / "kinesin").mkdir(parents=True)
    page.parent.mkdir(parents=True)
    page.write_text((root / "docs" / "reference" / "errors.md").read_text())
    (client / "generate.py").write_text((root / "clients" / "python" / "generate.py").read_text())
    subprocess.run([sys.executable, client / "generate.py", f"{shared.url}/v1/openapi.json"], check=True)
    for name in ("_types.py", "_reasons.py"):
        assert (client / "kinesin" / name).read_text() == (root / "clients" / "python" / "kinesin" / name).read_text()


def test_the_version_is_that_of_the_release():
    release = re.search(r"^RELEASE := (.+)$", (pathlib.Path(__file__).parents[3] / "Makefile").read_text(), re.M)
    assert release.group(1) == kinesin.__version__


@on_loop
async def test_what_is_wrong_is_said_before_a_call(app, name):
    send = app.lambda_(name)
    for options, text in [
        ({"delay": 5}, "want a timedelta"), ({"delay": "5 parsecs"}, "want a timedelta"), ({"due": datetime(2030, 1, 1)}, "zone"),
        ({"colour": "red"}, "want one of"),
    ]:  # fmt: skip
        with pytest.raises(kinesin.Invalid, match=text):
            await send.schedule(1, **options)
    with pytest.raises(kinesin.Invalid, match="no JSON"):
        await send.schedule({"x": object()})
    for payload, tags in [({"x": "a\ud800"}, {}), (1, {"t": "\udcff"})]:
        with pytest.raises(kinesin.Invalid, match="surrogate '.ud.*', which UTF-8 cannot have"):
            await send.schedule(payload, tags=tags)
    with pytest.raises(kinesin.Invalid):
        kinesin.App("ftp://x")


@on_loop
async def test_a_call_without_an_answer_schedules_nothing_twice(shared, app, name):
    await lambda_of(app, name)
    async with Proxy(shared) as proxy:
        slow = kinesin.App(proxy.url, call_timeout="300ms")
        await slow.count()  # connects
        proxy.open.clear()
        scheduling = asyncio.create_task(slow.lambda_(name).schedule({"n": 1}, delay="1h"))
        await until(lambda: slow.transport._budget < 20)
        proxy.open.set()
        made = await scheduling
        proxy.swallow = b"POST /v1/lambdas"
        many = await slow.lambda_(name).schedule_many([{"n": n} for n in range(10)], delay="1h")
        assert proxy.swallowed.is_set()
        await slow.close()
    assert {t.id async for t in app.list(name)} == {made.id, *(m.id for m in many)}


@on_loop
async def test_no_server_is_unavailable():
    with pytest.raises(kinesin.Unavailable) as failed:
        await kinesin.App("http://127.0.0.1:1", tries=2).count()
    assert failed.value.reason == "unavailable" and "127.0.0.1:1" in failed.value.detail


@on_loop
async def test_the_next_server_is_used_when_one_fails(shared):
    assert (await kinesin.App(f"127.0.0.1:1,{shared.listen}").count()).count >= 0


@on_loop
async def test_tokens(tmp_path):
    from conftest import Server

    secret, file = "s" * 40, tmp_path / "token"
    file.write_text(secret + "\n")
    file.chmod(0o600)
    server = Server(tmp_path / "data", "--auth-token-file", str(file)).start()
    try:
        for options in ({"token": secret}, {"token_file": str(file)}):
            assert (await kinesin.App(server.url, **options).count()).count == 0
        with pytest.raises(kinesin.Unauthenticated):
            await kinesin.App(server.url, token="x" * 40).count()
    finally:
        server.close()


def test_values():
    assert _wire.parse_duration("1h30m0.5s") == timedelta(hours=1, minutes=30, milliseconds=500)
    assert _wire.duration(timedelta(days=30)) == "2592000000000us"
    id = uuid.UUID(_wire.request_id())
    assert id.version == 7 and id.variant == uuid.RFC_4122 and _wire.request_id() != str(id)
    assert _wire.load(Reminder, {"user": 1, "later": True}) == Reminder(1)
    for wrong in ({"user": "secret"}, {}, []):
        with pytest.raises(_wire.Misfit) as failed:
            _wire.load(Reminder, wrong)
        assert "secret" not in str(failed.value)
    assert _wire.load(dict[str, list[Reminder] | None], {"a": [{"user": 1}], "b": None}) == {"a": [Reminder(1)], "b": None}


def test_the_plain_client(shared, name):
    app = kinesin.plain.App(shared.url)

    @app.handler(name)
    def send(task: kinesin.Task[Reminder]):
        app.stop()
        return task.payload.user

    app.ensure()
    made = send.schedule(Reminder(42), key="k")
    assert send.schedule(Reminder(42), key="k").duplicate
    assert len(send.schedule_many([Reminder(1)], delay="1h")) == 1
    assert [t.id for t in app.list(where=f"lambda={name} and key=k")] == [made.id]
    assert send(kinesin.Task(Reminder(7))) == 7
    app.run(slots=1, grace="5s")
    assert app.wait(made.id, timeout="5s").result == 42
    group = app.groups.create(then=[send.item(Reminder(1), delay="1h")])
    assert app.groups.add(group.id, 0, [send.item(Reminder(2))]) == 1
    assert len(list(app.groups.members(group.id))) == 1
    assert app.crons.list(name) == []
    with pytest.raises(kinesin.TooLate):
        app.cancel(made.id)
