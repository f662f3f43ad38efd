"""The clock of these tests, and what wakes their flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.relay import poller as polling
from proxy.relay.poller import open_poller

from .wire import patient_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trio.testing import MockClock

    from proxy.relay.poller import Poller


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


@pytest.fixture
async def poller() -> AsyncIterator[Poller]:
    async with open_poller() as opened:
        assert opened is not None
        yield opened


@pytest.fixture(scope="module")
def no_lingering() -> Iterator[None]:
    """For whoever sends one piece at a time and waits until it is dealt with: each piece would take `LINGER_SECONDS`,
    in which nothing comes. Three quarters of these tests' time were that."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(polling, "LINGER_SECONDS", 0.0)
        yield
