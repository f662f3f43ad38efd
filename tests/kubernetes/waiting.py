"""What controllers do takes them a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 30.0


def wait(condition: Callable[[], Any]) -> Any:
    """Return the first true value of the condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)
    return found
