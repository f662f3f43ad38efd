"""Every bound on the cost of one HTTP connection, and of all of them together.

docs/security.md has the same figures, and a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Sizes in bytes, times in seconds. Prometheus' requests have some 500 bytes and ten headers."""

    connections: int = 64
    """Connections open at once. One more takes the place of the one that waited longest for its peer."""
    request_line_bytes: int = 2 * 1024
    head_bytes: int = 8 * 1024
    """The request line and all headers."""
    headers: int = 64
    """Header lines of one request: h11 takes 3 µs for each (measured), and a head is read in one step of the loop."""
    body_bytes: int = 4 * 1024
    """The longest body of a request whose route says nothing else; such a body is read and ignored."""
    head_seconds: float = 5.0
    """From the accept, or a later request's first byte, to the end of its head."""
    body_seconds: float = 10.0
    handler_seconds: float = 10.0
    """The time a handler may take. Only a reload and large pages, which are worked out in slices, take any."""
    answer_seconds: float = 5.0
    """The time in which an answer must be sent; a peer that reads no faster is disconnected."""
    idle_seconds: float = 120.0
    """The time between two requests of one connection; scrapes are rarely more than a minute apart."""
    linger_seconds: float = 1.0
    """How long a closed connection is still read from: closing a socket with unread bytes makes TCP reset it, and
    the peer may lose the last answer."""
    linger_bytes: int = 16 * 1024 * 1024
