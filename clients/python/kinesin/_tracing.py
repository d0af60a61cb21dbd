"""Passes trace contexts (W3C traceparent) if the program has OpenTelemetry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

try:
    from opentelemetry import context as _context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    _propagator: TraceContextTextMapPropagator | None = TraceContextTextMapPropagator()
except ImportError:
    _propagator = None


def current_traceparent() -> str:
    """Returns the trace context of the current span; empty: none."""
    carrier: dict[str, str] = {}
    if _propagator is not None:
        _propagator.inject(carrier)
    return carrier.get("traceparent", "")


@contextlib.contextmanager
def below(traceparent: str) -> Iterator[None]:
    """Has spans begin below a trace context."""
    if _propagator is None or not traceparent:
        yield
        return
    token = _context.attach(_propagator.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        _context.detach(token)
