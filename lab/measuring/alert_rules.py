"""Alerting rules made fast: the same rules with minutes made seconds, so that an incident fits into a test.

Knows the places where rules have durations: `for:`, the brackets of a range, and `offset`. Pure. Invariant: nothing
else in a rule is changed, so an alert that fires here fires in production as well, only later.
"""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?<=\[)\d+[smhd](?=\])|(?<=\boffset )\d+[smhd]|(?<=for: )(?P<wait>\d+[smhd])$", re.MULTILINE)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHORTEST_RANGE_SECONDS, LONGEST_RANGE_SECONDS = 4.0, 5.0
"""The bounds of a shortened range: a rate needs several scrapes, and under a strict quota bytes come every tenth of a
second."""
SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 3.0


def seconds_of(duration: str) -> float:
    """Return the seconds of a Prometheus duration with one unit, such as `10m`."""
    return float(duration[:-1]) * _UNIT_SECONDS[duration[-1]]


def hurried(rules: str, *, factor: float = 1 / 120) -> str:
    """Return the text of a rules file with every range, `offset` and `for` shortened.

    Args:
        rules: as in deploy/prometheus.
        factor: of each duration, within the bounds above.
    """

    def shorter(found: re.Match[str]) -> str:
        in_range = found["wait"] is None
        seconds = seconds_of(found[0]) * factor
        least, most = (
            (SHORTEST_RANGE_SECONDS, LONGEST_RANGE_SECONDS)
            if in_range
            else (SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
        )
        return f"{int(min(max(seconds, least), most) * 1000)}ms"

    return _DURATION.sub(shorter, rules)
