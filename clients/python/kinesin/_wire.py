"""How values go over the wire: durations, times, payloads, request ids."""

from __future__ import annotations

import base64
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

from ._errors import Invalid

T = TypeVar("T")

Duration = Union[str, timedelta]
Time = Union[str, datetime]

_UNITS_S = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_WANT = 'want a timedelta, or a text such as "500ms", "90s", "1h30m" or "3d"'


def parse_duration(text: str) -> timedelta:
    """Reads a duration such as 1m30s."""
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
    return _timedelta(value).total_seconds()


def _timedelta(value: Duration) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise Invalid(f"a duration of type {type(value).__name__}: {_WANT}")


def duration(value: Duration) -> str:
    """Writes a duration as the server reads it."""
    d = _timedelta(value)
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


def dumps(value: Any) -> str:
    return json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


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
    return len(dumps(value).encode())


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
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or isinstance(kind, TypeVar) or kind is object:
        return data
    if kind is None or kind is type(None):
        return _expect(data is None, data, where, "null")
    if origin is Union or origin is types.UnionType:
        for one in args:
            try:
                return load(one, data, where)
            except Misfit:
                continue
        raise Misfit(f"{where} fits none of its types")
    if origin is typing.Annotated:
        return load(args[0], data, where)
    if origin is typing.Literal:
        _expect(data in args, data, where, f"one of {args}")
        return data
    if origin in (list, tuple, set, frozenset) or kind in (list, tuple, set, frozenset):
        _expect(isinstance(data, list), data, where, "an array")
        if origin is tuple and args and args[-1] is not Ellipsis:
            _expect(len(data) == len(args), data, where, f"{len(args)} values")
            return tuple(load(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, data)))
        return (origin or kind)(load(args[0] if args else Any, v, f"{where}[{i}]") for i, v in enumerate(data))
    if origin is dict or kind is dict:
        _expect(isinstance(data, dict), data, where, "an object")
        return {k: load(args[1] if args else Any, v, f"{where}.{k}") for k, v in data.items()}
    if hasattr(kind, "model_validate"):
        try:
            return kind.model_validate(data)
        except Exception as e:  # its text may quote the value
            raise Misfit(f"{where} does not fit {kind.__name__} ({type(e).__name__})") from None
    if dataclasses.is_dataclass(kind):
        _expect(isinstance(data, dict), data, where, "an object")
        return _record(typing.cast(type, kind), fold(data) if kind.__module__ == "kinesin._types" else data, where)
    return _scalar(kind, data, where)


def _record(kind: type, data: dict[str, Any], where: str) -> Any:
    hints = _hints(kind)
    values: dict[str, Any] = {}
    for f in dataclasses.fields(kind):
        name = f.name if f.name in data else f.name.rstrip("_")
        if f.init and name in data:
            values[f.name] = load(hints[f.name], data[name], f"{where}.{name}")
    try:
        return kind(**values)
    except Exception as e:
        missing = f": {e}" if isinstance(e, TypeError) and "missing" in str(e) else ""
        raise Misfit(f"{where} does not fit {kind.__name__} ({type(e).__name__}{missing})") from None


_JSON: dict[Any, Any] = {bool: bool, str: str, int: int, float: (int, float)}
_TEXT: dict[Any, Callable[[Any], Any]] = {
    bytes: functools.partial(base64.b64decode, validate=True), datetime: parse_time, timedelta: parse_duration, date: date.fromisoformat,
}  # fmt: skip


def _scalar(kind: Any, data: Any, where: str) -> Any:
    if kind in _JSON:
        _expect(isinstance(data, _JSON[kind]) and (kind is bool or not isinstance(data, bool)), data, where, kind.__name__)
        return kind(data)
    known = isinstance(kind, type) and issubclass(kind, (enum.Enum, uuid.UUID, Decimal))
    try:
        return _TEXT[kind](data) if kind in _TEXT else kind(data) if known else data
    except Exception as e:
        raise Misfit(f"{where} does not fit {getattr(kind, '__name__', kind)} ({type(e).__name__})") from None


def _expect(fits: bool, data: Any, where: str, want: str) -> None:
    if not fits:
        raise Misfit(f"{where} is a JSON {type(data).__name__}, want {want}")


def load_payload(kind: Any, fields: dict[str, Any]) -> Any:
    """Returns the payload of an attempt as the type that its handler takes."""
    value = fold(fields).get("payload")
    if kind is bytes:
        if isinstance(value, bytes):
            return value
        if "payload_text" in fields:
            return fields["payload_text"].encode()
        return b"" if "payload" not in fields else dumps(value).encode()
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
