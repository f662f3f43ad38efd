"""What a move between pods is held to.

A pod's card counts headers too, and what brokers say besides; a quota counts records. And where a whole cluster shares
two cores, some of what was asked for in one second is delivered in the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.system.expectations import WORST_SECOND

if TYPE_CHECKING:
    from .recorder import Passed

BESIDES = 0.1
MEAN = (0.9, 1.05)
TAKEN_SECONDS = 120.0
"""A kubelet looks at a pod's volumes once a minute, and half a minute later at times."""
EFFECT_SECONDS = 2.0


def assert_held(passed: Passed) -> None:
    """All of it, one second with the other, and none too much."""
    assert passed.worst_second <= WORST_SECOND + BESIDES, passed
    assert MEAN[0] <= passed.mean <= MEAN[1] + BESIDES / 2, passed
