"""How much and how long: every bound on what one HTTP connection, and all of them together, may cost.

docs/security.md has the same figures, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes in bytes, times in seconds. Prometheus' requests have some 500 bytes and ten headers."""

    connections: int = 64
    """Open at once. The next one takes the place of that which has waited longest for its peer."""
    request_line_bytes: int = 2 * 1024
    head_bytes: int = 8 * 1024
    """The request line and all headers."""
    headers: int = 64
    """Lines of them: h11 takes 3 µs for each, and all of a head are read in one step (measured)."""
    body_bytes: int = 4 * 1024
    """Where the route does not say otherwise; read, and of no meaning."""
    head_seconds: float = 5.0
    """From the accept, or a later request's first byte, to the end of its head."""
    body_seconds: float = 10.0
    handler_seconds: float = 10.0
    """To work an answer out. Only a reload and the slices of a large snapshot wait at all."""
    answer_seconds: float = 5.0
    """To send it: a peer that does not read is not waited for."""
    idle_seconds: float = 120.0
    """Between two requests: longer than between two scrapes, which are a minute apart at most, as a rule."""
    linger_seconds: float = 1.0
    """After the last answer, for what is still on its way here: closed at once, TCP would take the answer back."""
    linger_bytes: int = 16 * 1024 * 1024
