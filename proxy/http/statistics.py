"""Counts HTTP connections and requests: plain integers that the metrics read. Invariant: every one but `connections`
only grows."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class HttpRefusal(enum.Enum):
    """Reason why the server ended a connection. The value is the metric label `reason`."""

    MALFORMED = "malformed"
    """Not HTTP/1.x, or cut off in the middle of a request."""
    HEAD_TOO_LARGE = "head_too_large"
    BODY_TOO_LARGE = "body_too_large"
    BODY_WITHOUT_LENGTH = "body_without_length"
    SLOW_HEAD = "slow_head"
    SLOW_BODY = "slow_body"
    SLOW_HANDLER = "slow_handler"
    SLOW_READER = "slow_reader"
    FOREIGN_HOST = "foreign_host"
    FOREIGN_ORIGIN = "foreign_origin"
    NOT_ADMITTED = "not_admitted"
    """The route needs a token, and the request had none or a wrong one."""
    MADE_ROOM = "made_room"
    """The connection had waited longest for its peer when there were too many connections."""
    NOT_ACCEPTED = "not_accepted"
    """The kernel gave no socket, for want of file descriptors or memory."""
    FAILED = "failed"
    """A defect of the sidecar, answered with 500."""


@dataclass(slots=True)
class HttpStatistics:
    """Counters of one process since its start."""

    connections: int = 0
    """Open now."""
    answers: Counter[int] = field(default_factory=Counter)
    """By status code."""
    refused: Counter[HttpRefusal] = field(default_factory=Counter)
