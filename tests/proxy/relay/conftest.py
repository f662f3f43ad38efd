"""The clock of these tests, and what wakes their flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.relay.poller import open_poller

from .wire import patient_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
