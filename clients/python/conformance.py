"""The adapter of the conformance suite (clients/conformance), over what the package exports and nothing else."""

import asyncio
import base64
import json
import logging
import os
import re
import sys
import time
from datetime import datetime
from typing import Any

import kinesin

SERVER, VIEW = os.environ["KINESIN_SERVER"], "id state failures due key priority tags result payload".split()
ENDS = {"fail": RuntimeError, "fatal": kinesin.Fatal, "release": kinesin.Release}
app = kinesin.App(SERVER)
workers: dict[kinesin.App, asyncio.Task[None]] = {}


def say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line, default=datetime.isoformat).encode() + b"\n")  # one write: the lines of two threads do not mix


def item(args: dict[str, Any]) -> kinesin.Item:
    options = {{"at": "due", "conflict": "on_conflict"}.get(k, k): v for k, v in args.items()}
    name, then, payload = options.pop("lambda"), options.pop("then", []), options.pop("payload", None)
    payload = options.pop("payload_text", payload)
    if "payload_base64" in options:
        payload = base64.b64decode(options.pop("payload_base64"))
    return app.lambda_(name).item(payload, **options).then(*map(item, then))


def view(task: kinesin.TaskInfo) -> dict[str, Any]:
    shown = {name: getattr(task, name) for name in VIEW if getattr(task, name) is not None}
    for name in ("result", "payload"):
        if isinstance(shown.get(name), bytes):
            shown[name + "_base64"] = base64.b64encode(shown.pop(name)).decode()
    return {**shown, "attempts": task.attempt, "error": task.attempts[-1].error if task.attempts else None}


async def run(do: str, args: dict[str, Any]) -> dict[str, Any]:
    task = args.get("id") or kinesin.ByKey(args.get("lambda", ""), args.get("key", ""))
    match do:
        case "schedule":
            made = await app.schedule(item(args))
            return {"id": made.id, "created": not (made.duplicate or made.replaced)}
        case "batch":
            try:
                results = await app.schedule_many(map(item, args["tasks"]))
            except kinesin.NotScheduled as e:
                results = e.results
            return {"tasks": [{"id": r.id} if isinstance(r, kinesin.Scheduled) else {"reason": r.reason} for r in results]}
        case "get":
            return view(await app.get(task, payload=True))
        case "wait":
            return view(await app.wait(task, args.get("timeout", "30s")))
        case "cancel":
            return {"state": (await app.cancel(task)).outcome}
        case "reschedule":
            return {"state": (await app.reschedule(task, delay=args.get("delay"), due=args.get("at"))).state}
        case "cron":
            await app.crons.create(args["name"], args["lambda"], args["schedule"], args.get("payload"))
        case "delete_cron":
            await app.crons.delete(args["name"])
        case "group":
            return {"id": (await app.groups.schedule(map(item, args["tasks"]), then=[*map(item, args.get("then", []))])).id}
        case "chain":
            return {"id": (await app.schedule(kinesin.chain(*map(item, args["tasks"])))).id}
        case "work":
            worker = kinesin.App(SERVER)
            for name in args.pop("lambdas"):
                worker.handler(name)(handle)
            registered.clear()
            workers[worker] = asyncio.create_task(worker.run(signals=False, **args))
            workers[worker].add_done_callback(lambda _: registered.set())
            await registered.wait()
            if workers[worker].done():
                await workers.pop(worker)  # it was refused
        case "stop":
            while workers:
                worker, running = workers.popitem()
                worker.stop()
                await running
        case _:
            raise ValueError(f"no command {do!r}")
    return {}


async def handle(task: kinesin.Task[Any]) -> Any:
    script, number, how = task.payload, str(task.attempt), "success"
    event("start", task)
    try:
        if not isinstance(script, dict) or not script.keys() & {"steps", "attempts"}:
            return script
        for step in script.get("attempts", {}).get(number, script.get("steps", [])):
            if "sleep" in step:
                value, unit = re.fullmatch(r"([\d.]+)(ms|s)", step["sleep"]).groups()
                await asyncio.sleep(float(value) / {"ms": 1000, "s": 1}[unit])
            elif "until" in step:
                await asyncio.Event().wait()
            else:
                how = step["end"]
                if how == "success":
                    return step.get("result")
                raise kinesin.Snooze(step["delay"]) if how == "snooze" else ENDS[how](step.get("error", ""))
    except asyncio.CancelledError:
        how = task.stopping
        raise
    finally:
        event("end", task, how=how)


def event(name: str, task: kinesin.Task[Any], **more: str) -> None:
    say({"event": name, "task": task.id, "attempt": task.attempt, "at": time.time_ns() // 1_000_000, **more})


def logged(record: logging.LogRecord) -> bool:
    """Tells what the worker logs about its lease."""
    if record.getMessage() == "worker registered":
        say({"event": "registered"})
        loop.call_soon_threadsafe(registered.set)
    elif record.getMessage().startswith("lease lost"):
        say({"event": "lease_lost"})
    return True


async def answer(n: int, do: str, args: dict[str, Any] | None = None) -> None:
    try:
        say({"n": n, "ok": await run(do, args or {})})
    except Exception as e:
        reason = "timeout" if isinstance(e, TimeoutError) else getattr(e, "reason", "")
        say({"n": n, "error": {"reason": reason, "message": str(e)}})


async def main() -> None:
    answers = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answers.add(asyncio.create_task(answer(**json.loads(line))))
    await run("stop", {})


loop, registered = asyncio.new_event_loop(), asyncio.Event()
log = logging.getLogger("kinesin")
log.setLevel(logging.INFO)
log.addFilter(logged)
loop.run_until_complete(main())
