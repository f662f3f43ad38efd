"""The clock of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .moves import patient_clock

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()
