"""Fetch sessions (KIP-227) as values: what a follower asks within one, and what the leader is asked instead.

Since Fetch v7 a request lists only the partitions that changed; the leader fetches the others from its cache. A
partition that is left out of a request is therefore still fetched, at the offset it had when it was listed last. To
leave one out in truth it must be *forgotten*, and listed again later; then the leader's requests are no longer the
follower's, and neither are their epochs. `translator` is where to go on reading.

Must not know bytes, connections or quotas: an entry is whatever the caller made of it, as long as it tells its
partition_max_bytes. Invariant: values only; nothing here changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ..fetch.tables import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID
from ..work_in_steps import LIGHT, parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..wire.topics import Topic
    from ..work_in_steps import Steps

MAX_EPOCH = 2**31 - 1
FETCH_SESSION_ID_NOT_FOUND = 70
"""The error at which a follower sends a full request without its usual back-off: after 0.1 s (measured)."""

PartitionKey: TypeAlias = "tuple[Topic, int]"


class SessionEntry(Protocol):
    """A partition's entry in a Fetch request. A session keeps it, so it must not refer to a frame that goes away."""

    @property
    def partition_max_bytes(self) -> int: ...


E = TypeVar("E", bound=SessionEntry)


class SessionRequest(NamedTuple, Generic[E]):
    """A follower's request in a session.

    A partition that is listed twice counts as it was listed last, as at the leader.
    """

    version: int
    listed: Mapping[PartitionKey, E]
    session_id: int = NO_SESSION_ID
    session_epoch: int = FINAL_EPOCH
    forgotten: Sequence[PartitionKey] = ()

    @property
    def is_full(self) -> bool:
        """True if it lists every partition, and the response must hold every one of them."""
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


@dataclass(frozen=True, slots=True)
class Choice:
    """The changes to what the leader is asked for; partitions that are not named go on as they are.

    `omitted` are left out from now on; of a session, `restored` are those that were left out and are asked for again.
    `grants` are asked for first, `probes` last, with these partition_max_bytes: lowered, never raised. No partition is
    both asked for and omitted, or omitted twice.
    """

    omitted: Collection[PartitionKey] = frozenset()
    grants: Mapping[PartitionKey, int] = field(default_factory=dict)
    probes: Mapping[PartitionKey, int] = field(default_factory=dict)
    restored: Collection[PartitionKey] = ()

    def limits(self) -> Mapping[PartitionKey, int]:
        """Return the partition_max_bytes to ask with at most."""
        return {**self.probes, **self.grants} if self.grants else self.probes


class Upstream(NamedTuple, Generic[E]):
    """The request to the leader: entries with the partition_max_bytes to write into them, and partitions to forget."""

    session_id: int
    session_epoch: int
    listed: list[tuple[PartitionKey, E, int]]
    forgotten: list[PartitionKey]
    as_it_came: bool
    """True if nothing of it differs from the follower's own request."""


class LocalAnswer(NamedTuple):
    """An answer without asking the leader: this error and session id, throttle_time_ms 0, no partitions.

    An answer without error to a full request must still hold every partition that was asked for.
    """

    error_code: int
    session_id: int


def next_epoch(epoch: int) -> int:
    """Return the epoch after this one, within a session: MAX_EPOCH is followed by 1 (0 would ask for a new session)."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


def in_wire_order(keys: Sequence[PartitionKey]) -> Steps[list[PartitionKey]]:
    """Return partitions sorted by topic and number, so that those of one topic share a block."""
    topics: dict[Topic, list[int]] = {}
    for part in parts(keys, LIGHT):
        for topic, partition in part:
            topics.setdefault(topic, []).append(partition)
        if part is not keys:
            yield
    ordered: list[PartitionKey] = []
    for topic in sorted(topics, key=lambda topic: topic if isinstance(topic, bytes) else topic.encode()):
        numbers = sorted(topics[topic])
        for some in parts(numbers, LIGHT):
            ordered += [(topic, number) for number in some]
            if some is not numbers:
                yield
    return ordered


def upstream(
    request: SessionRequest[E],
    keys: list[PartitionKey],
    entries: Mapping[PartitionKey, E],
    limits: Mapping[PartitionKey, int],
    *,
    session: tuple[int, int],
    forgotten: list[PartitionKey],
) -> Steps[Upstream[E]]:
    """Ask for `keys` in place of `request`, each with its own partition_max_bytes or a lower limit.

    `session` is the id and epoch to send.
    """
    lowers = False
    asks: list[tuple[PartitionKey, E, int]] = []
    for part in parts(keys):
        for key in part:
            entry = entries[key]
            own = entry.partition_max_bytes
            limit = limits.get(key, own)
            if limit < own:
                lowers = True
            else:
                limit = own
            asks.append((key, entry, limit))
        if part is not keys:
            yield
    as_it_came = (
        not lowers
        and session == (request.session_id, request.session_epoch)
        and len(keys) == len(request.listed)
        and keys == list(request.listed)
        and forgotten == list(request.forgotten)
    )
    return Upstream(*session, asks, forgotten, as_it_came)
