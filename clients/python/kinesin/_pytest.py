"""The plugin for pytest."""

from collections.abc import Iterator

import pytest

from .testing import Server


@pytest.fixture
def kinesin_server() -> Iterator[Server]:
    """A server in virtual time."""
    with Server() as server:
        yield server
