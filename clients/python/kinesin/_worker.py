"""The worker: its lease, claims and results run in a thread of their own, so that no handler stops the heartbeats."""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import _types as types
from ._errors import Abandoned, Error, Fatal, Release, Snooze
from ._pools import HandlerFailed
from ._reasons import Invalid, LeaseLost, PermissionDenied, TooLarge, Unauthenticated, Unavailable, UnknownLambda, Unsupported
from ._task import Stop
from ._transport import Transport, pause_s
from ._wire import chunks, encode, json_bytes, now_s, parse_time, seconds, show, utc

log = logging.getLogger("kinesin")

CLAIM_WAIT_S = 20.0
CLAIM_WAIT_AGAIN_S = 1.0  # after a claim that failed: the next connection may be half-open, too
CLAIM_LATE_S = 4.0  # a claim that comes later than that after its wait was delayed by the network
CLAIM_MAX = 1000
EMPTY_PAUSE_S = 0.05
RESULT_BYTES_MAX = 32 << 10
RESULTS_PER_CALL_MAX = 1000
RESULTS_BYTES_MAX = 4 << 20  # in one call
RESULTS_WAITING_MAX = 2000  # beyond that nothing is claimed
KEPT_MAX = 10_000  # results that outlive their lease
ERROR_BYTES_MAX = 1024
FLUSH_S, LEAVE_S = 5.0, 2.0
LOOK_S = 0.01  # between two looks whether what has to end has ended
ABANDONED_DELAY = "500ms"
FINAL_REFUSALS = (Invalid, Unsupported, Unauthenticated, PermissionDenied)


class Attempt:
    """An attempt that this worker has. Only the thread of the worker changes its state."""

    def __init__(self, fields: dict[str, Any], group: Pool, session: Session) -> None:
        self.fields, self.session = fields, session
        self.claimed = show(types.Claimed, {k: v for k, v in fields.items() if not k.startswith("payload")})
        self.claim: str = fields["claim"]
        self.group, self.state, self.dropped, self.stop = group, "held", False, Stop()
        self.result: dict[str, Any] = {}
        self.started, self.has_slot = utc(), True
        self.timer: asyncio.TimerHandle | None = None
        self.handler: asyncio.Task[dict[str, Any]] | None = None
        group.busy += 1

    def free(self) -> None:
        """Frees the slot."""
        if self.timer:
            self.timer.cancel()
        if self.has_slot:
            self.has_slot = False
            self.group.busy -= 1
            self.group.freed.set()


class Pool:
    """Slots for the tasks of some lambdas."""

    def __init__(self, lambdas: list[str], slots: int) -> None:
        self.lambdas, self.slots, self.busy, self.freed = lambdas, slots, 0, asyncio.Event()


def error_text(e: BaseException) -> str:
    """Returns what is stored of an exception: its type, its text, and where it came from."""
    if isinstance(e, HandlerFailed):
        return str(e)
    text = "".join(traceback.format_exception_only(type(e), e)).strip() if str(e) else type(e).__name__
    frames = [f for f in traceback.extract_tb(e.__traceback__) if os.path.dirname(f.filename) != os.path.dirname(__file__)]
    return f"{text} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else text


def outcome_of(e: BaseException) -> dict[str, Any]:
    if isinstance(e, Snooze):
        return {"outcome": "snoozed", "delay": e.delay}
    if isinstance(e, Fatal):
        return {"outcome": "fatal_failure", "error": _tail(str(e) or "fatal")}
    if isinstance(e, Release):
        return {"outcome": "released", "error": _tail(str(e) or "the handler gave the task back")}
    return {"outcome": "retriable_failure", "error": _tail(error_text(e))}


def success(value: Any, following: list[Any]) -> dict[str, Any]:
    result = encode(value, "result")
    size = len(value) if isinstance(value, (bytes, bytearray)) else json_bytes(result.get("result"))
    if size > RESULT_BYTES_MAX:
        raise TooLarge(f"the result has {size} bytes: want at most {RESULT_BYTES_MAX}")
    if following:
        result["add"] = {"then": [i.wire() for i in following]}
    return {"outcome": "success", **result}


def final(outcome: dict[str, Any], cause: str, timeout: timedelta | None) -> dict[str, Any]:
    """Returns the outcome of a handler that had to stop. One that succeeded, or said that no retry will help, is believed."""
    if outcome["outcome"] not in ("retriable_failure", "snoozed"):
        return outcome
    error = outcome.get("error", "")
    if cause == "cancelled":
        return {"outcome": "cancelled", "error": error}
    if cause == "draining":
        return {"outcome": "released", "error": "the worker is stopping"}
    if cause == "timeout":
        text = f"timed out after {timeout.total_seconds() if timeout else 0:g}s"
        return {"outcome": "retriable_failure", "error": _tail(f"{text}: {error}" if error else text)}
    return outcome


async def before(event: asyncio.Event, call: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a call, or None if the event comes first: then the call is broken off."""
    task, wait = asyncio.ensure_future(call), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([task, wait], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        wait.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def again(what: str, e: Error, failures: int) -> None:
    """Pauses after a call that failed, so many times in a row."""
    if failures % 20 == 1:
        log.warning("%s failed; trying again: %s", what, e.detail, extra={"failures": failures})
    await asyncio.sleep(pause_s(failures, 0.05, 0.5 if failures < 200 else 2))


def _tail(text: str) -> str:
    return text.encode()[-ERROR_BYTES_MAX:].decode(errors="ignore")


@dataclass(eq=False)
class Worker:
    """Keeps a lease, and works under it, until it is told to stop."""

    transport: Transport
    registration: dict[str, Any]
    ensure: Callable[[], Coroutine[Any, Any, None]]  # creates the lambdas that are missing
    begin: Callable[[Attempt], None]  # starts a handler; called by the thread of the worker
    cancel: Callable[[Attempt], None]  # stops it
    grace_s: float
    kill_after_s: float
    exit_with: Callable[[int], Any]

    def __post_init__(self) -> None:
        self.done: Future[None] = Future()
        self.loop, self.stopping = asyncio.new_event_loop(), asyncio.Event()
        self.session: Session | None = None  # the newest

    def stop(self) -> None:
        """Has the worker drain. It may be called from any thread and from a signal handler."""
        self.call(self.stopping.set)

    def call(self, f: Callable[..., Any], *args: Any) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(f, *args)

    def run(self) -> None:
        """Does so in a thread of its own; done has the end."""
        try:
            self.done.set_result(self.loop.run_until_complete(self._main()))
        except BaseException as e:
            self.done.set_exception(e)
        finally:
            self.loop.close()

    async def _main(self) -> None:
        lost: Session | None = None
        losses = 0
        try:
            while True:
                session = await self._register(lost)
                if session is None:
                    return
                self.session = session
                if not await session.run():
                    return
                losses = losses + 1 if now_s() - session.begun < session.lease_s else 1
                log.warning("lease lost (%s); registering again", session.lost, extra={"worker": session.worker})
                await before(self.stopping, asyncio.sleep(pause_s(losses, 0.05, 2)))
                lost = session
        finally:
            await self.transport.close()

    async def _register(self, lost: Session | None) -> Session | None:
        """Opens a lease, and gives up the lost one. It tries until a server answers and one of the lambdas exists."""
        failures, body = 0, self.registration
        if lost is not None:
            results = [a.result for a in lost.kept_results()]
            body = {**body, "previous": {"worker": lost.worker, "proof": lost.proof, "results": results}}
        while not self.stopping.is_set():
            sent = now_s()
            try:
                answer = await before(self.stopping, self.transport.once("POST", "/work/register", body))
            except (TooLarge, *FINAL_REFUSALS) as e:
                if not isinstance(e, (Invalid, TooLarge)) or not body.get("previous", {}).get("results"):
                    raise
                log.error("results of the lost lease dropped: %s", e.detail)
                body["previous"]["results"] = []
            except UnknownLambda as e:
                failures += 1
                if not await self._create() or failures > 1:
                    await before(self.stopping, again("register", e, failures))
            except Error as e:
                failures += 1
                await before(self.stopping, again("register", e, failures))
            else:
                if answer is None:
                    return None
                if answer.get("missing"):
                    await self._create()
                for ack in answer.get("acks", []):
                    if ack.get("problem"):
                        log.warning("result refused: %s", ack["problem"].get("detail"), extra={"claim": ack["claim"]})
                return Session(self, answer, sent)
        return None

    async def _create(self) -> bool:
        """Creates the lambdas that are missing, and reports whether it could. If not, their tasks run once somebody else has."""
        try:
            await before(self.stopping, self.ensure())
        except Error as e:
            log.warning("lambdas of this worker do not exist, and were not created: %s", e.detail)
            return False
        return True


class Session:
    """The work under one lease."""

    def __init__(self, worker: Worker, answer: dict[str, Any], sent_s: float) -> None:
        self.of, self.transport = worker, worker.transport
        self.worker, self.proof = answer["worker"], answer["proof"]
        self.lease_s, self.heartbeat_s = seconds(answer["lease"]), seconds(answer["heartbeat"])
        self.margin_s = min(2.0, self.lease_s / 5)  # the time that handlers have to obey when the lease is lost
        self.valid_s = (self.lease_s - self.margin_s) * 0.999  # clocks may run apart
        self.renewed = self.begun = sent_s
        self.pools = [Pool(**g) for g in worker.registration["groups"]]
        self.attempts: dict[str, Attempt] = {}
        self.lost, self.draining = "", False
        self.gone, self.outbox = asyncio.Event(), asyncio.Event()
        self.unanswered = asyncio.Event()  # set for a moment when a heartbeat has no answer: other connections may be half-open, too
        self.offset = timedelta()  # of the server's clock
        self.kept: list[Attempt] = []

    def holds(self) -> bool:
        """Reports whether the lease holds at this moment. Everything that starts a task or sends a result asks first."""
        if not self.lost and now_s() - self.renewed >= self.valid_s:
            self.lose(f"no heartbeat was accepted for {now_s() - self.renewed:.1f} s")
        return not self.lost

    def lose(self, why: str) -> None:
        """Stops the handlers, and keeps the results of attempts that do not run, for the next registration."""
        if self.lost:
            return
        self.lost = why
        for a in self.having("running"):
            self._stop(a, "lease_lost")
        self.kept = [a for a in self.having("ended") if not a.dropped]
        for a in self.having("held"):
            self._end(a, {"outcome": "released", "error": "the worker's lease was lost before it started"})
            self._forget(a)
            self.kept.append(a)
        self.gone.set()
        self.outbox.set()

    def _claims(self) -> list[str]:
        return [a.claim for a in self.attempts.values() if not a.dropped]

    def having(self, state: str) -> list[Attempt]:
        return [a for a in self.attempts.values() if a.state == state]

    async def run(self) -> bool:
        """Works until the worker is told to stop, or the lease is lost: then it returns true."""
        log.info("worker registered", extra={"worker": self.worker, "lease_s": self.lease_s})
        claims = [asyncio.ensure_future(self._claim(p)) for p in self.pools]
        loops = [asyncio.ensure_future(c) for c in (self._heartbeats(), self._send_results())]
        waits = [asyncio.ensure_future(e.wait()) for e in (self.of.stopping, self.gone)]
        try:
            done: set[Any] = set()
            while not done and self.holds():
                done, _ = await asyncio.wait([*claims, *loops, *waits], timeout=self.lease_s / 60, return_when=asyncio.FIRST_COMPLETED)
            for d in done:
                d.result()  # a loop that failed ends the worker
            self.draining = True
            await self._cancel(claims)
            if not self.lost:
                await self._drain()
            if self.lost:
                await self._after_loss()
                return True
            return False
        except Error:
            raise
        except BaseException as e:
            self.lose(f"the worker failed: {type(e).__name__}")
            await self._after_loss()
            raise
        finally:
            await self._cancel([*claims, *loops, *waits])

    def kept_results(self) -> list[Attempt]:
        """Returns what goes with the next registration, of what ended first as much as one call takes."""
        some = next(chunks(self.kept, lambda a: json_bytes(a.result), KEPT_MAX, RESULTS_BYTES_MAX), [])
        if len(some) < len(self.kept):
            log.error("results of the lost lease dropped: their tasks run again", extra={"results": len(self.kept) - len(some)})
        return some

    @staticmethod
    async def _cancel(tasks: list[Any]) -> None:
        while left := [t for t in tasks if not t.done()]:  # again, since wait_for may miss a cancel
            for t in left:
                t.cancel()
            await asyncio.wait(left, timeout=0.1)

    async def _claim(self, pool: Pool) -> None:
        failures = 0
        while self.holds() and not self.draining:
            free = min(pool.slots - pool.busy, RESULTS_WAITING_MAX - len(self.having("ended")))
            if free <= 0:
                pool.freed.clear()
                await pool.freed.wait()
                continue
            sent, wait_s = now_s(), CLAIM_WAIT_AGAIN_S if failures else CLAIM_WAIT_S
            body = {"worker": self.worker, "lambdas": pool.lambdas, "limit": min(free, CLAIM_MAX), "wait": f"{wait_s:g}s"}
            if failures:  # what a lost answer had goes back to its queue
                body.update(again=True, running=self._claims())
            try:
                call = self.transport.once("POST", "/work/claim", body, timeout_s=wait_s + CLAIM_LATE_S)
                answer = await before(self.unanswered, call)
                if answer is None or "tasks" not in answer:
                    raise Unavailable("a heartbeat had no answer" if answer is None else "the answer to a claim is none of a server")
                failures = 0
            except LeaseLost:
                self.lose("the server says so")
                return
            except Error as e:
                failures += 1
                await again("claim", e, failures)
                continue
            for fields in answer["tasks"]:
                self._take(fields, pool)
            if not answer["tasks"] and now_s() - sent < EMPTY_PAUSE_S:  # a server that does not wait
                await asyncio.sleep(EMPTY_PAUSE_S)

    def _take(self, fields: dict[str, Any], pool: Pool) -> None:
        if fields["claim"] not in self.attempts:
            a = self.attempts[fields["claim"]] = Attempt(fields, pool, self)
            a.timer = self.of.loop.call_later(seconds(a.claimed.hold or "0s"), self._start, a)

    def _start(self, a: Attempt) -> None:
        if a.state != "held" or not self.holds():
            return
        a.state, a.started = "running", utc() + self.offset
        if a.claimed.timeout:
            a.timer = self.of.loop.call_later(a.claimed.timeout.total_seconds(), self._stop, a, "timeout")
        self.of.begin(a)

    def _stop(self, a: Attempt, cause: str) -> None:
        if a.state == "running":
            a.stop.set(cause)
            self.of.cancel(a)

    def handled(self, a: Attempt, outcome: dict[str, Any]) -> None:
        """Takes the outcome of a handler that has returned."""
        if a.state != "running":
            return  # abandoned
        self.holds()
        if self.lost or a.dropped:
            a.state = "ended"
            self._forget(a)
            return
        self._end(a, {**final(outcome, a.stop.cause, a.claimed.timeout), "started": a.started.isoformat()})

    def _end(self, a: Attempt, result: dict[str, Any]) -> None:
        a.state, a.result = "ended", {**result, "claim": a.claim}
        a.free()
        self.outbox.set()

    def _forget(self, a: Attempt) -> None:
        self.attempts.pop(a.claim, None)
        a.free()
        for pool in self.pools:
            pool.freed.set()

    async def _send_results(self) -> None:
        """Sends what has ended until it is acknowledged, one call at a time: what ends meanwhile goes with the next one."""
        failures = 0
        while not self.lost:
            waiting = [a for a in self.having("ended") if not a.dropped]
            if not waiting:
                self.outbox.clear()
                await self.outbox.wait()
                continue
            batch = next(chunks(waiting, lambda a: json_bytes(a.result), RESULTS_PER_CALL_MAX, RESULTS_BYTES_MAX))
            if not self.holds():
                return
            try:
                body = {"worker": self.worker, "results": [a.result for a in batch]}
                answer = await self.transport.once("POST", "/work/results", body)
                self._acked(batch, answer.get("acks", []))
                failures = 0
            except LeaseLost:
                self.lose("the server says so")
                return
            except Error as e:
                failures += 1
                await again("sending results", e, failures)

    def _acked(self, batch: list[Attempt], acks: list[dict[str, Any]]) -> None:
        """Takes the acknowledgements. It raises Unavailable if some results have to be sent again."""
        left = len(batch) - len(acks)
        for a, ack in zip(batch, acks):
            problem = ack.get("problem")
            if problem and problem.get("reason") in ("unavailable", "throttled", "full"):
                left += 1
                continue
            if problem:
                log.warning("result refused: %s", problem.get("detail"), extra={"task": a.claimed.id, "attempt": a.claimed.attempt})
            if problem and problem.get("reason") in ("invalid", "too_large") and a.result["outcome"] == "success":
                error = _tail(f"the server refused the result: {problem.get('detail')}")
                a.result = {"claim": a.claim, "outcome": "retriable_failure", "error": error}  # sent with the next call
            else:
                self._forget(a)
        if left > 0:
            raise Unavailable(f"{left} of {len(batch)} results were not taken")

    async def _heartbeats(self) -> None:
        """The lease counts from when the last accepted heartbeat was sent. One that fails is repeated sooner."""
        while self.holds():
            sent, wall = now_s(), utc()
            body = {"worker": self.worker, "running": self._claims()}
            try:
                answer = await self.transport.once("POST", "/work/heartbeat", body, timeout_s=self.heartbeat_s)
                if "cancels" not in answer or "fenced" not in answer:
                    raise Unavailable("the answer to a heartbeat is none of a server")
            except LeaseLost:
                self.lose("the server says so")
                return
            except Error as e:
                log.warning("heartbeat failed: %s", e.detail, extra={"worker": self.worker})
                if not e.status:
                    self.unanswered.set()  # ends the claims under way
                    self.unanswered.clear()
                await asyncio.sleep(pause_s(2, min(1.0, self.heartbeat_s / 8), min(2.0, self.heartbeat_s / 2)))
                continue
            if not self.holds():
                return
            self.renewed = sent
            half = (utc() - wall) / 2
            if "now" in answer:
                offset = parse_time(answer["now"]) - (wall + half)
                self.offset = offset if abs(offset) > half + timedelta(milliseconds=1) else timedelta()
            for claim in answer["cancels"]:
                self._cancelled(claim)
            for claim in answer["fenced"]:
                self._fenced(claim)
            await asyncio.sleep(max(0.0, self.heartbeat_s - (now_s() - sent)))

    def _cancelled(self, claim: str) -> None:
        a = self.attempts.get(claim)
        if a is not None and a.state == "held":
            self._end(a, {"outcome": "cancelled"})
        elif a is not None:
            self._stop(a, "cancelled")

    def _fenced(self, claim: str) -> None:
        a = self.attempts.get(claim)
        if a is None or a.dropped:
            return
        log.warning("attempt fenced: another attempt owns the task", extra={"task": a.claimed.id, "attempt": a.claimed.attempt})
        if a.state == "running":
            a.dropped = True
            self._stop(a, "fenced")
        else:
            self._forget(a)

    async def _until(self, done: Callable[[], bool], within_s: float) -> bool:
        """Waits until done, at most so long, or until the lease is lost if it is not yet."""
        end, had = now_s() + within_s, self.lost
        while not done():
            self.holds()
            left = end - now_s()
            if left <= 0 or self.lost != had:
                return False
            await asyncio.sleep(min(left, LOOK_S))
        return True

    async def _drain(self) -> None:
        """Takes nothing new, lets handlers go on for the grace, then tells them to stop, and abandons those that do not."""
        log.info("worker draining", extra={"worker": self.worker, "running": len(self.having("running"))})
        for a in self.having("held"):
            self._end(a, {"outcome": "released", "error": "the worker is stopping"})
        if not await self._until(lambda: not self.having("running"), self.of.grace_s):
            for a in self.having("running"):
                self._stop(a, "draining")
            await self._until(lambda: not self.having("running"), self.of.kill_after_s)
        if self.lost:
            return
        abandoned = self.having("running")
        for a in abandoned:
            why = "the handler did not stop when the worker did"
            self._end(a, {"outcome": "snoozed", "delay": ABANDONED_DELAY, "error": why, "started": a.started.isoformat()})
        if await self._until(lambda: not self.attempts, min(FLUSH_S, self.lease_s)):
            try:
                await self.transport.once("POST", "/work/leave", {"worker": self.worker}, timeout_s=LEAVE_S)
                log.info("worker left", extra={"worker": self.worker})
            except Error as e:
                log.warning("leave failed; the lease runs out by itself: %s", e.detail, extra={"worker": self.worker})
        elif not self.lost:
            log.warning("worker stopping with results that were not acknowledged", extra={"worker": self.worker})
        if abandoned and not self.lost:
            raise Abandoned(f"{len(abandoned)} handlers run {self.of.kill_after_s:g} s after they were told to stop: end the process")

    async def _after_loss(self) -> None:
        """Waits for the handlers to obey, and ends the process if they do not: their tasks start elsewhere."""
        if await self._until(lambda: not self.having("running"), self.margin_s):
            return
        left = len(self.having("running"))
        log.error("handlers go on without a lease; the process must end", extra={"worker": self.worker, "running": left})
        self.of.exit_with(1)
        raise LeaseLost(f"{self.lost}, and {left} handlers go on: end the process")
