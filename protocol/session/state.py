"""One fetch session, translated: the follower's at one end, at the other the leader's, which the sidecar owns.

    follower's request ─▶ merge_request ─▶ forward ─▶ what goes to the leader     the epochs of both ends move on
                                        └▶ skip                                   only the follower's does

Both ends have the same session id; their epochs differ as soon as one request was answered here. Kept are the
follower's entries, and where the leader's session differs from them, which is in few partitions or none:

    | kept           | the leader's session                                                   |
    |----------------|------------------------------------------------------------------------|
    | `_absent`      | has not got these                                                      |
    | `_unforgotten` | still has these, which the follower has forgotten meanwhile            |
    | `_unsent`      | has (or lacks) these, but not as the follower listed them last         |
    | `_lowered`     | has these with a lower partition_max_bytes than the follower asks with |

After `forward` the leader's session is the follower's without what was omitted, and `_unforgotten` and `_unsent` are
empty. A partition that comes back is listed with the entry that is current then; the leader starts it afresh and so
sends its high watermark again: nothing is lost by omitting it.

If the follower forgets a partition and lists it again before the leader has heard of either, the leader is only told
that it is listed. Then the leader need not send its high watermark again; that does no harm, since this follower has
had it in this session. To forget the partition for one request instead would hold up a replica in sync.

Must not know connections, time or quotas, nor when a session ends. Invariant: the leader's session is never emptied
by an omission, since the leader would close it and the follower start again with everything, 39 times the quota
(measured). A request costs what it lists, omits and limits, however large the session is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

from .requests import Choice, E, LocalAnswer, PartitionKey, SessionRequest, in_wire_order, next_epoch, upstream

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set

    from .requests import Upstream


class SessionState(NamedTuple, Generic[E]):
    """A session as a value, from which another process goes on."""

    session_id: int
    version: int
    follower_epoch: int
    leader_epoch: int
    partitions: Mapping[PartitionKey, E]
    absent: Collection[PartitionKey]
    lowered: Mapping[PartitionKey, int]
    unsent: Collection[PartitionKey]
    unforgotten: Collection[PartitionKey]


class FetchSession(Generic[E]):
    """Created by the leader's answer to a full request of which `choice` was forwarded."""

    __slots__ = (
        "_absent",
        "_lowered",
        "_unforgotten",
        "_unsent",
        "follower_epoch",
        "leader_epoch",
        "partitions",
        "session_id",
        "version",
    )

    def __init__(self, session_id: int, request: SessionRequest[E], choice: Choice) -> None:
        self.session_id = session_id
        self.version = request.version
        self.follower_epoch = self.leader_epoch = next_epoch(request.session_epoch)
        """The epoch that the next request at either end must carry."""
        self.partitions: dict[PartitionKey, E] = dict(request.listed)
        """All partitions that the follower wants, as it listed them last."""
        self._absent: Set[PartitionKey] = choice.omitted & self.partitions.keys()
        self._lowered = self._lowered_by(choice.limits(), self._absent)
        self._unsent: dict[PartitionKey, None] = {}
        self._unforgotten: dict[PartitionKey, None] = {}

    @classmethod
    def from_state(cls, state: SessionState[E]) -> FetchSession[E]:
        """Return the session that `state` was taken of."""
        session = cls(state.session_id, SessionRequest(state.version, state.partitions), Choice())
        session.follower_epoch, session.leader_epoch = state.follower_epoch, state.leader_epoch
        session._absent, session._lowered = frozenset(state.absent), dict(state.lowered)
        session._unsent, session._unforgotten = dict.fromkeys(state.unsent), dict.fromkeys(state.unforgotten)
        return session

    def state(self) -> SessionState[E]:
        """Return the session as a value."""
        return SessionState(
            self.session_id, self.version, self.follower_epoch, self.leader_epoch,
            self.partitions, self._absent, self._lowered, self._unsent, self._unforgotten,
        )  # fmt: skip

    def merge_request(self, request: SessionRequest[E]) -> None:
        """Merge what the follower lists and forgets, in the leader's order: what is both is forgotten."""
        partitions = self.partitions
        added = {key for key in request.listed if key not in partitions and key not in self._unforgotten}
        if added:
            self._absent = self._absent | added
        for key, entry in request.listed.items():
            self._unforgotten.pop(key, None)
            self._unsent[key] = None
            partitions[key] = entry
        dropped = {key for key in request.forgotten if partitions.pop(key, None) is not None}
        for key in request.forgotten:
            if key in dropped:
                self._unsent.pop(key, None)
                self._lowered.pop(key, None)
                if key not in self._absent:
                    self._unforgotten[key] = None
        if not dropped.isdisjoint(self._absent):
            self._absent = self._absent - dropped

    def forward(self, request: SessionRequest[E], choice: Choice) -> Upstream[E]:
        """Return what to ask the leader, and take it as asked.

        Raises ValueError for a choice that leaves nothing: `skip` the leader instead. A follower that has forgotten
        everything itself is forwarded: the leader ends that session.
        """
        same = choice.omitted == self._absent
        omitted: Set[PartitionKey] = self._absent if same else choice.omitted & self.partitions.keys()
        if self.partitions and len(omitted) == len(self.partitions):
            raise ValueError(f"all {len(omitted)} partitions of the session are omitted: the leader would close it")
        limits = choice.limits()
        unlike = self._unlike(choice, limits, omitted)
        forgotten = [*self._unforgotten, *in_wire_order(omitted - self._absent)]
        self._absent = omitted
        self._lowered = self._lowered_by(limits, omitted)
        self._unsent.clear()
        self._unforgotten.clear()
        session = (self.session_id, self.leader_epoch)
        self.leader_epoch = next_epoch(self.leader_epoch)
        self.follower_epoch = next_epoch(self.follower_epoch)
        return upstream(request, unlike, self.partitions, limits, session=session, forgotten=forgotten)

    def skip(self) -> LocalAnswer:
        """Answer without asking the leader; what it has not heard goes with the next request that is forwarded."""
        self.follower_epoch = next_epoch(self.follower_epoch)
        return LocalAnswer(0, self.session_id)

    def _unlike(
        self, choice: Choice, limits: dict[PartitionKey, int], omitted: Set[PartitionKey]
    ) -> list[PartitionKey]:
        """Return the partitions that the request must list so that the leader's session becomes what was chosen: the
        granted ones first, the probes last, and in between the others in the follower's own order."""
        returning = in_wire_order(self._absent - omitted)
        restored = [key for key in self._lowered if key not in limits]
        wanted = dict.fromkeys(key for key in choice.grants if self._differs(key, limits))
        wanted.update((key, None) for key in (*self._unsent, *returning, *restored) if key not in limits)
        wanted.update(dict.fromkeys(key for key in choice.probes if self._differs(key, limits)))
        return [key for key in wanted if key not in omitted]

    def _differs(self, key: PartitionKey, limits: dict[PartitionKey, int]) -> bool:
        entry = self.partitions.get(key)
        if entry is None:
            return False
        if key in self._unsent or key in self._absent:
            return True
        own = entry.partition_max_bytes
        return min(limits[key], own) != self._lowered.get(key, own)

    def _lowered_by(self, limits: dict[PartitionKey, int], omitted: Set[PartitionKey]) -> dict[PartitionKey, int]:
        partitions = self.partitions
        return {
            key: limit
            for key, limit in limits.items()
            if key in partitions and key not in omitted and limit < partitions[key].partition_max_bytes
        }
