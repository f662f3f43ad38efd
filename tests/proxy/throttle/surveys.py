"""A survey taken without a pause, for tests of few replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.throttle.survey import survey

if TYPE_CHECKING:
    from proxy.throttle.role_throttle import RoleThrottle
    from proxy.throttle.survey import RoleSurvey


def surveyed(throttle: RoleThrottle, now: float) -> RoleSurvey:
    """What is found."""
    steps = survey(throttle, now)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: RoleSurvey = done.value
            return found
