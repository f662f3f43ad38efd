"""Values that pass between a follower's session handler and a leader's session cache, without the wire format.

Must not know either of them. Invariant: values only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey


class Ask(NamedTuple):
    """A partition's entry in a request; -1 where the version has no such field."""

    fetch_offset: int
    partition_max_bytes: int = 1024 * 1024
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class Read(NamedTuple):
    """A partition's entry in a response."""

    high_watermark: int
    log_start_offset: int = 0
    records_size: int = 0
    error_code: int = 0
    is_diverging: bool = False
    payload: object = None
    """The content that the leader and its follower agree on: the records, for example."""


@dataclass(frozen=True, slots=True)
class SessionResponse:
    """A response: an error of the whole, or these entries."""

    session_id: int
    entries: dict[PartitionKey, Read] = field(default_factory=dict)
    error_code: int = 0
