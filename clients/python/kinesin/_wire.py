"""How values go over the wire: durations, times, payloads, request ids."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import enum
import functools
import json
import os
import re
import sys
import time
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar, Union

from ._reasons import Invalid

T = TypeVar("T")

Duration = Union[str, timedelta]
Time = Union[str, datetime]

_UNITS_S = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_WANT = 'want a timedelta, or a text such as "500ms", "90s", "1h30m" or "3d"'


def parse_duration(text: Duration) -> timedelta:
    """Reads a duration such as 1m30s."""
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str):
        raise Invalid(f"a duration of type {type(text).__name__}: {_WANT}")
    body = text.lstrip("+-")
    if body == "0":
        return timedelta()
    parts = _PART.findall(body)
    if not parts or "".join(n + u for n, u in parts) != body:
        raise Invalid(f"{text!r} is no duration: {_WANT}")
    total = sum(Decimal(n) * Decimal(str(_UNITS_S[u])) for n, u in parts)
    return timedelta(microseconds=float(total * 1_000_000) * (-1 if text.startswith("-") else 1))


def seconds(value: Duration) -> float:
    """Returns a duration in seconds. A number is refused, since it does not say its unit."""
    return parse_duration(value).total_seconds()


def duration(value: Duration) -> str:
    """Writes a duration as the server reads it."""
    d = parse_duration(value)
    if d < timedelta():
        raise Invalid(f"a duration below zero: {_WANT}")
    return value if isinstance(value, str) else f"{d // timedelta(microseconds=1)}us"


def instant(value: Time) -> str:
    """Writes a time as the server reads it."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Invalid("a datetime without a zone: want one with tzinfo, such as datetime.now(timezone.utc)")
        return value.isoformat()
    if isinstance(value, str):
        return value
    raise Invalid(f"a time of type {type(value).__name__}: want a datetime with a zone, or a text by RFC 3339")


def parse_time(text: str) -> datetime:
    if text.endswith(("Z", "z")):
        text = text[:-1] + "+00:00"
    if "." in text:  # Python 3.10 takes 3 or 6 digits only
        text = re.sub(r"\.(\d+)", lambda m: "." + m.group(1)[:6].ljust(6, "0"), text)
    return datetime.fromisoformat(text)


def request_id() -> str:
    """Returns a UUID of version 7, which makes a repeated call harmless."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | (random >> 68) << 64 | 2 << 62 | random & (1 << 62) - 1
    return str(uuid.UUID(int=value))


def _plain(value: Any) -> Any:
    """Returns what JSON has of a value that it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (uuid.UUID, Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON")


def dumps(value: Any) -> bytes:
    text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise Invalid(f"a text has the surrogate {text[e.start]!a}, which UTF-8 cannot have: want text, or bytes") from None


def encode(value: Any, name: str = "payload") -> dict[str, Any]:
    """Returns the fields of a payload or a result: bytes as they are, anything else as JSON, None as nothing."""
    if value is None:
        return {}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {name + "_base64": base64.b64encode(value).decode()}
    try:
        return {name: json.loads(dumps(value))}
    except (TypeError, ValueError, RecursionError) as e:
        raise Invalid(f"the {name} has no JSON: {e if isinstance(e, TypeError) else type(e).__name__}") from None


def json_bytes(value: Any) -> int:
    return len(dumps(value))


def chunks(values: Iterable[T], size: Callable[[T], int], most: int, bytes_max: int) -> Iterator[list[T]]:
    """Cuts values into what one call takes: so many at most, and so many bytes unless a single value is larger."""
    chunk: list[T] = []
    left = bytes_max
    for value in values:
        left -= size(value)
        if chunk and (len(chunk) == most or left < 0):
            yield chunk
            chunk, left = [], bytes_max - size(value)
        chunk.append(value)
    if chunk:
        yield chunk


def fold(data: dict[str, Any]) -> dict[str, Any]:
    """Puts payload_text and payload_base64, and the same of a result, into the one field."""
    for name in ("payload", "result"):
        if name + "_text" in data:
            data = {**data, name: data[name + "_text"]}
        elif name + "_base64" in data:
            data = {**data, name: base64.b64decode(data[name + "_base64"])}
    return data


class Misfit(Exception):
    """A value does not fit a type. The text says where, and never shows the value."""


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def load(kind: Any, data: Any, where: str = "payload") -> Any:
    """Returns JSON as a type: dataclasses, pydantic models, and what they consist of. Unknown fields are left out."""
    of, args = typing.get_origin(kind) or kind, typing.get_args(kind)
    if of in (Any, object) or isinstance(kind, TypeVar):
        return data
    if of is typing.Annotated:
        return load(args[0], data, where)
    if of in (Union, types.UnionType):
        for one in args:
            with contextlib.suppress(Misfit):
                return load(one, data, where)
        raise Misfit(f"{where} fits none of its types")
    is_record = dataclasses.is_dataclass(of)
    wants = (dict,) if is_record else _JSON.get(of)
    if wants and type(data) not in wants:
        raise Misfit(f"{where} is a JSON {type(data).__name__}, want {wants[0].__name__}")
    if is_record:
        data = fold(data) if of.__module__ == "kinesin._types" else data
        names = {f.name: f.name if f.name in data else f.name.rstrip("_") for f in dataclasses.fields(of) if f.init}
        values = {to: load(_hints(of)[to], data[name], f"{where}.{name}") for to, name in names.items() if name in data}
        return _fits(functools.partial(of, **values), kind, where)
    if of is dict:
        return {k: load(args[1] if args else Any, v, f"{where}.{k}") for k, v in data.items()}
    if wants == (list,):
        of_each = of is tuple and args and args[-1] is not ...
        kinds = args if of_each else (args or (Any,))[:1] * len(data)
        if len(kinds) != len(data):
            raise Misfit(f"{where} has {len(data)} values, want {len(kinds)}")
        return of(load(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, data)))
    return data if of is type(None) else _fits(functools.partial(_scalar, of, args, data), kind, where)


_JSON: dict[Any, tuple[type, ...]] = {
    dict: (dict,), **dict.fromkeys((list, tuple, set, frozenset), (list,)), type(None): (type(None),),
    bool: (bool,), str: (str,), int: (int,), float: (float, int),
}  # fmt: skip
_TEXT: dict[Any, Callable[[Any], Any]] = {
    bytes: functools.partial(base64.b64decode, validate=True), datetime: parse_time, timedelta: parse_duration, date: date.fromisoformat,
}  # fmt: skip


def _scalar(of: Any, args: Any, data: Any) -> Any:
    if of is typing.Literal:
        return args[args.index(data)]
    if hasattr(of, "model_validate"):
        return of.model_validate(data)
    known = of in _JSON or isinstance(of, type) and issubclass(of, (enum.Enum, uuid.UUID, Decimal))
    return _TEXT[of](data) if of in _TEXT else of(data) if known else data


def _fits(make: Callable[[], Any], kind: Any, where: str) -> Any:
    try:
        return make()
    except Exception as e:  # its text may quote the value
        missing = f": {e}" if isinstance(e, TypeError) and "missing" in str(e) else ""
        raise Misfit(f"{where} does not fit {getattr(kind, '__name__', kind)} ({type(e).__name__}{missing})") from None


def load_payload(kind: Any, fields: dict[str, Any]) -> Any:
    """Returns the payload of an attempt as the type that its handler takes."""
    value = fold(fields).get("payload")
    if kind is bytes:
        if "payload" in fields:
            return dumps(value)
        return value.encode() if isinstance(value, str) else value or b""
    if value is None and "payload" not in fields and isinstance(kind, type) and (kind is dict or dataclasses.is_dataclass(kind)):
        value = {}
    return load(kind, value)


def show(kind: type[T], data: Any) -> T:
    """Returns an answer of the server as its type."""
    return typing.cast(T, load(kind, data, kind.__name__))


def now_s() -> float:
    """Returns a time that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def utc() -> datetime:
    return datetime.now(timezone.utc)
