"""Calls over HTTP: credentials, retries, several servers."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import ssl
import time
import urllib.parse
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx

from ._errors import Error
from ._reasons import Invalid, Throttled, Unavailable
from ._wire import Duration, dumps, seconds, show

T = TypeVar("T")
SERVERS_MAX = 16
THROTTLED_MAX_S = 10.0
BUDGET_PER_CALL, BUDGET_MAX = 0.1, 20.0


def pause_s(failures: int, least_s: float, most_s: float) -> float:
    """Returns a random pause after so many failures, between the least and a bound that doubles."""
    return random.uniform(least_s, min(most_s, least_s * 2 ** min(failures, 20)))


@functools.cache
def _public() -> ssl.SSLContext:
    """Returns the public authorities, which take tenths of a second to read."""
    return httpx.create_ssl_context()


class Transport:
    def __init__(
        self, url: str, token: str | None, token_file: str | None, ca_file: str | None,
        client_certificate: tuple[str, str] | None, call_timeout: Duration, tries: int,
    ) -> None:  # fmt: skip
        self.urls = [self._url(u.strip()) for u in url.split(",")]
        if len(self.urls) > SERVERS_MAX:
            raise Invalid(f"{len(self.urls)} servers: want {SERVERS_MAX} at most")
        if token and token_file:
            raise Invalid("token and token_file: want one of them")
        if tries < 1:
            raise Invalid(f"tries {tries}: want 1 or more")
        self.call_timeout_s, self.tries = seconds(call_timeout), tries
        self._token, self._token_file, self._token_read = token, token_file, 0
        self._ca_file, self._certificate = ca_file, client_certificate
        self._clients: weakref.WeakKeyDictionary[Any, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        self._at, self._budget = 0, BUDGET_MAX

    @staticmethod
    def _url(url: str) -> str:
        url = url if "://" in url else "http://" + url
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise Invalid(f"{url!r} is no server: want a URL such as http://127.0.0.1:7070, or HOST:PORT")
        return f"{parts.scheme}://{parts.netloc}"

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            verify = _public()
            if self._ca_file or self._certificate:
                verify = ssl.create_default_context(cafile=self._ca_file)
                if self._certificate:
                    verify.load_cert_chain(*self._certificate)
            local: Any = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}  # never by a proxy
            limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
            self._clients[loop] = httpx.AsyncClient(verify=verify, timeout=None, mounts=local, limits=limits)
        return self._clients[loop]

    async def close(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _headers(self) -> dict[str, str]:
        if self._token_file:
            try:
                changed = os.stat(self._token_file).st_mtime_ns
                if changed != self._token_read:
                    with open(self._token_file, encoding="utf-8") as f:
                        self._token, self._token_read = f.readline().strip(), changed
            except OSError as e:
                if self._token is None:
                    raise Invalid(f"the token file cannot be read: {e}") from None
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    async def once(
        self, method: str, path: str, body: Any = None, *, params: dict[str, Any] | None = None,
        timeout_s: float | None = None, lines: list[bytes] | None = None,
    ) -> Any:  # fmt: skip
        """Makes one try of a call. lines are a batch, and so is its answer."""
        headers, content = self._headers(), None
        if lines is not None:
            headers["Content-Type"], content = "application/x-ndjson", b"\n".join(lines) + b"\n"
        elif body is not None:
            headers["Content-Type"], content = "application/json", dumps(body)
        at, timeout_s = self._at, timeout_s or self.call_timeout_s
        server = self.urls[at % len(self.urls)]
        given = {k: v for k, v in (params or {}).items() if v is not None}
        try:
            answer = await asyncio.wait_for(
                self._client().request(method, f"{server}/v1{path}", content=content, headers=headers, params=given), timeout_s
            )
            if answer.status_code >= 300:
                error = refusal(answer.status_code, _json(answer))
                if answer.status_code in (502, 503, 504):
                    self._next(at)
                raise error
            if lines is None:
                return _json(answer)
            return [json.loads(line) for line in answer.text.split("\n") if line]
        except asyncio.TimeoutError:
            self._next(at)
            raise Unavailable(f"no answer from {server} within {timeout_s:g} s") from None
        except (httpx.RequestError, ValueError) as e:
            self._next(at)
            raise Unavailable(f"no answer from {server}: {e or type(e).__name__}") from e

    def _next(self, failed: int) -> None:
        if self._at == failed:
            self._at += 1

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeats an attempt while no server answers."""
        self._budget = min(self._budget + BUDGET_PER_CALL, BUDGET_MAX)
        begun, failures = time.monotonic(), 0
        while True:
            try:
                return await attempt()
            except Throttled as e:
                pause = max(e.retry_after_s or 0, 0.01)
                if self.tries == 1 or time.monotonic() + pause > begun + THROTTLED_MAX_S:
                    raise
            except Unavailable:
                failures += 1
                if failures >= self.tries:
                    raise
                if self._budget >= 1:
                    self._budget -= 1
                    pause = pause_s(failures, 0.05, 2)
                else:  # many calls fail: they must not become many more
                    pause = pause_s(failures, 1, 8)
                    if time.monotonic() + pause > begun + THROTTLED_MAX_S:
                        raise
            await asyncio.sleep(pause)

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return await self.retry(lambda: self.once(method, path, body, **options))

    async def ask(self, kind: type[T], method: str, path: str, body: Any = None, **options: Any) -> T:
        """Returns the answer of a call as its type."""
        return show(kind, await self.call(method, path, body, **options))


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json() if answer.content else {}
    except ValueError:
        if answer.status_code < 300:
            raise
        return {}


BY_REASON: dict[str, type[Error]] = {c.reason: c for c in Error.__subclasses__()}


def refusal(status: int, problem: Any) -> Error:
    """Returns the error of a problem (RFC 9457)."""
    problem = problem if isinstance(problem, dict) else {}
    kind = BY_REASON.get(problem.get("reason", ""), Unavailable if status in (429, 502, 503, 504) else Error)
    after = problem.get("retry_after")
    detail = str(problem.get("detail") or f"the server answered {status}")
    return kind(detail, status=status, retry_after_s=seconds(after) if after else None)


def quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
