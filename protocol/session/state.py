"""One fetch session, translated: the follower's at one end, at the other the leader's, which the sidecar owns.

    follower's request ─▶ merge_request ─▶ forward ─▶ what goes to the leader     the epochs of both ends move on
                                        └▶ skip                                   only the follower's does

Both ends have the same session id; their epochs differ as soon as one request was answered here. Kept are the
follower's entries, and where the leader's session differs from them, which is in few partitions or none:

    | kept           | the leader's session                                                   |
    |----------------|------------------------------------------------------------------------|
    | `absent`       | has not got these, since they are omitted                              |
    | `_added`       | has not got these yet: the follower has listed them since              |
    | `_unforgotten` | still has these, which the follower has forgotten meanwhile            |
    | `_unsent`      | has (or lacks) these, but not as the follower listed them last         |
    | `_lowered`     | has these with a lower partition_max_bytes than the follower asks with |

After `forward` the leader's session is the follower's without `absent`, and `_added`, `_unforgotten` and `_unsent` are
empty. A partition that comes back is listed with the entry that is current then; the leader starts it afresh and so
sends its high watermark again: nothing is lost by omitting it.

If the follower forgets a partition and lists it again before the leader has heard of either, the leader is only told
that it is listed. Then the leader need not send its high watermark again; that does no harm, since this follower has
had it in this session. To forget the partition for one request instead would hold up a replica in sync.

Must not know connections, time or quotas, nor when a session ends. Invariant: the leader's session is never emptied
by an omission, since the leader would close it and the follower start again with everything, 39 times the quota
(measured). A request costs what it lists, what it limits, and what is omitted or restored by it, however large the
session is and however much of it is omitted already.
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
        "_added",
        "_lowered",
        "_unforgotten",
        "_unsent",
        "absent",
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
        self.absent: set[PartitionKey] = choice.omitted & self.partitions.keys()
        """The partitions that are omitted: the leader's session lacks them. Not to be changed by others."""
        self._added: set[PartitionKey] = set()
        self._lowered = self._lowered_by(choice.limits())
        self._unsent: dict[PartitionKey, None] = {}
        self._unforgotten: dict[PartitionKey, None] = {}

    @classmethod
    def from_state(cls, state: SessionState[E]) -> FetchSession[E]:
        """Return the session that `state` was taken of."""
        session = cls(state.session_id, SessionRequest(state.version, state.partitions), Choice())
        session.follower_epoch, session.leader_epoch = state.follower_epoch, state.leader_epoch
        session._unsent, session._unforgotten = dict.fromkeys(state.unsent), dict.fromkeys(state.unforgotten)
        # An older process does not tell apart what was added. Of what is omitted this asks for no more than is due: all
        # that is to be omitted is chosen anew in this process.
        session.absent, session._lowered = set(state.absent), dict(state.lowered)
        session._added = session.absent & session._unsent.keys()
        session.absent -= session._added
        return session

    def state(self) -> SessionState[E]:
        """Return the session as a value."""
        return SessionState(
            self.session_id, self.version, self.follower_epoch, self.leader_epoch,
            self.partitions, self.absent | self._added, self._lowered, self._unsent, self._unforgotten,
        )  # fmt: skip

    def merge_request(self, request: SessionRequest[E]) -> None:
        """Merge what the follower lists and forgets, in the leader's order: what is both is forgotten."""
        partitions = self.partitions
        for key, entry in request.listed.items():
            if key not in partitions and key not in self._unforgotten:
                self._added.add(key)
            self._unforgotten.pop(key, None)
            self._unsent[key] = None
            partitions[key] = entry
        for key in request.forgotten:
            if partitions.pop(key, None) is None:
                continue
            self._unsent.pop(key, None)
            self._lowered.pop(key, None)
            if key not in self.absent and key not in self._added:
                self._unforgotten[key] = None
            self.absent.discard(key)
            self._added.discard(key)

    def forward(self, request: SessionRequest[E], choice: Choice) -> Upstream[E] | LocalAnswer:
        """Return what to ask the leader, and take it as asked; or, for a choice that leaves nothing, what `skip` does.

        A follower that has forgotten everything itself is forwarded: the leader ends that session.
        """
        partitions, absent, limits = self.partitions, self.absent, choice.limits()
        omitted = (choice.omitted & partitions.keys()) - absent
        returning = {key for key in (*choice.restored, *limits) if key in absent}
        if partitions and len(absent) + len(omitted) - len(returning) == len(partitions):
            return self.skip()
        unlike = self._unlike(choice, limits, returning)
        forgotten = [*self._unforgotten, *in_wire_order(omitted - self._added)]
        absent -= returning
        absent |= omitted
        self._lowered = self._lowered_by(limits)
        self._added.clear()
        self._unsent.clear()
        self._unforgotten.clear()
        session = (self.session_id, self.leader_epoch)
        self.leader_epoch = next_epoch(self.leader_epoch)
        self.follower_epoch = next_epoch(self.follower_epoch)
        return upstream(request, unlike, partitions, limits, session=session, forgotten=forgotten)

    def skip(self) -> LocalAnswer:
        """Answer without asking the leader; what it has not heard goes with the next request that is forwarded."""
        self.follower_epoch = next_epoch(self.follower_epoch)
        return LocalAnswer(0, self.session_id)

    def _unlike(
        self, choice: Choice, limits: dict[PartitionKey, int], returning: Set[PartitionKey]
    ) -> list[PartitionKey]:
        """Return the partitions that the request must list so that the leader's session becomes what was chosen: the
        granted ones first, the probes last, and in between the others in the follower's own order."""
        absent, omitted = self.absent, choice.omitted
        changed = (key for key in (*self._unsent, *self._lowered) if key not in omitted)
        between = [key for key in changed if key not in absent or key in returning]
        wanted = dict.fromkeys(key for key in choice.grants if self._differs(key, limits))
        wanted.update((key, None) for key in between if key not in limits)
        wanted.update(dict.fromkeys(in_wire_order(returning - limits.keys())))
        wanted.update(dict.fromkeys(key for key in choice.probes if self._differs(key, limits)))
        return list(wanted)

    def _differs(self, key: PartitionKey, limits: dict[PartitionKey, int]) -> bool:
        entry = self.partitions.get(key)
        if entry is None:
            return False
        if key in self._unsent or key in self.absent:
            return True
        own = entry.partition_max_bytes
        return min(limits[key], own) != self._lowered.get(key, own)

    def _lowered_by(self, limits: dict[PartitionKey, int]) -> dict[PartitionKey, int]:
        partitions = self.partitions
        return {
            key: limit
            for key, limit in limits.items()
            if key in partitions and limit < partitions[key].partition_max_bytes
        }
