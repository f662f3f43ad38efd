"""One fetch session, translated: the follower's at one end, at the other the leader's, which the sidecar owns.

    full request ─▶ a new session ─┐
    a later one ─▶ merge_request ──┴─▶ forward ─▶ what goes to the leader     the epochs of both ends move on
                                   └─▶ skip                                   only the follower's does

Both ends have the same session id; their epochs differ as soon as one request was answered here. Kept are the
follower's entries, and where the leader's session differs from them, which is in few partitions or none:

    | kept           | the leader's session                                                   |
    |----------------|------------------------------------------------------------------------|
    | `absent`       | has not got these, since they are omitted                              |
    | `_unforgotten` | still has these, which the follower has forgotten meanwhile            |
    | `_unsent`      | has these, but not as the follower listed them last; or never had them |
    | `_lowered`     | has these with a lower partition_max_bytes than the follower asks with |

After `forward` the leader's session is the follower's without `absent`, and `_unforgotten` and `_unsent` are empty. A
partition that comes back is listed with the entry that is current then; the leader starts it afresh and so sends its
high watermark again: nothing is lost by omitting it.

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

from ..work_in_steps import LIGHT, collected, gathered, parts
from .requests import E, LocalAnswer, PartitionKey, SessionRequest, in_wire_order, next_epoch, upstream

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..work_in_steps import Steps
    from .requests import Choice, Upstream


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
    """Begins empty, with the full request that is to open it; `opened` by the leader's answer."""

    __slots__ = (
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

    def __init__(self, version: int, session_id: int, epoch: int) -> None:
        """`session_id` and `epoch`: what the leader is sent with the full request, which closes the session of that
        id."""
        self.session_id = session_id
        self.version = version
        self.follower_epoch = self.leader_epoch = epoch
        """The epoch that the next request at either end must carry."""
        self.partitions: dict[PartitionKey, E] = {}
        """All partitions that the follower wants, as it listed them last."""
        self.absent: set[PartitionKey] = set()
        """The partitions that are omitted: the leader's session lacks them. Not to be changed by others."""
        self._unsent: dict[PartitionKey, bool] = {}
        """The partitions that the leader has not heard of as they were listed last; True: it has never had them."""
        self._lowered: dict[PartitionKey, int] = {}
        self._unforgotten: dict[PartitionKey, None] = {}

    @classmethod
    def from_state(cls, state: SessionState[E]) -> FetchSession[E]:
        """Return the session that `state` was taken of."""
        session = cls(state.version, state.session_id, state.leader_epoch)
        session.follower_epoch, session.partitions = state.follower_epoch, dict(state.partitions)
        session._unforgotten, session._lowered = dict.fromkeys(state.unforgotten), dict(state.lowered)
        # An older process does not tell apart what was added. Of what is omitted this asks for no more than is due: all
        # that is to be omitted is chosen anew in this process.
        absent, unsent = set(state.absent), state.unsent
        session._unsent = {key: key in absent for key in unsent}
        session.absent = absent.difference(unsent)
        return session

    def state(self) -> SessionState[E]:
        """Return the session as a value."""
        added = {key for key, is_new in self._unsent.items() if is_new}
        return SessionState(
            self.session_id, self.version, self.follower_epoch, self.leader_epoch,
            self.partitions, self.absent | added, self._lowered, self._unsent, self._unforgotten,
        )  # fmt: skip

    def opened(self, session_id: int) -> None:
        """Note that the leader has opened the session, by this id."""
        self.session_id = session_id

    def merge_request(self, request: SessionRequest[E]) -> Steps[None]:
        """Merge what the follower lists and forgets, in the leader's order: what is both is forgotten. A full request
        forgets nothing."""
        partitions, unsent, unforgotten = self.partitions, self._unsent, self._unforgotten
        listed = list(request.listed.items())
        for part in parts(listed):
            for key, entry in part:
                is_new = key not in partitions and key not in unforgotten
                unforgotten.pop(key, None)
                unsent[key] = is_new or unsent.get(key, False)
                partitions[key] = entry
            if part is not listed:
                yield
        if request.is_full or not request.forgotten:
            return
        for some in parts(request.forgotten):
            for key in some:
                if partitions.pop(key, None) is None:
                    continue
                is_new = unsent.pop(key, False)
                self._lowered.pop(key, None)
                if key not in self.absent and not is_new:
                    unforgotten[key] = None
                self.absent.discard(key)
            if some is not request.forgotten:
                yield

    def forward(self, request: SessionRequest[E], choice: Choice) -> Steps[Upstream[E] | LocalAnswer]:
        """Return what to ask the leader, and take it as asked; or, for a choice that leaves nothing, what `skip` does.

        A follower that has forgotten everything itself is forwarded: the leader ends that session.
        """
        partitions, absent, unsent, limits = self.partitions, self.absent, self._unsent, choice.limits()
        omitted: list[PartitionKey] = []
        returning: dict[PartitionKey, None] = {}
        if choice.omitted:
            omitted = yield from collected(
                list(choice.omitted), lambda part: [key for key in part if key in partitions and key not in absent]
            )
        if absent:
            returning = yield from gathered(
                [*choice.restored, *limits], lambda part: {key: None for key in part if key in absent}
            )
        if partitions and len(absent) + len(omitted) - len(returning) == len(partitions):
            return self.skip()
        unlike = yield from self._unlike(choice, limits, returning)
        forgotten = list(self._unforgotten)
        if omitted:
            had = yield from collected(omitted, lambda part: [key for key in part if not unsent.get(key)])
            forgotten += yield from in_wire_order(had)
        absent.difference_update(returning)
        for part in parts(omitted, LIGHT):
            absent.update(part)
            if part is not omitted:
                yield
        self._lowered = (yield from self._lowered_by(limits)) if limits else {}
        self._unsent, self._unforgotten = {}, {}
        session = (self.session_id, self.leader_epoch)
        self.leader_epoch = next_epoch(self.leader_epoch)
        self.follower_epoch = next_epoch(self.follower_epoch)
        return (yield from upstream(request, unlike, partitions, limits, session=session, forgotten=forgotten))

    def skip(self) -> LocalAnswer:
        """Answer without asking the leader; what it has not heard goes with the next request that is forwarded."""
        self.follower_epoch = next_epoch(self.follower_epoch)
        return LocalAnswer(0, self.session_id)

    def _unlike(
        self, choice: Choice, limits: Mapping[PartitionKey, int], returning: Mapping[PartitionKey, None]
    ) -> Steps[list[PartitionKey]]:
        """Return the partitions that the request must list so that the leader's session becomes what was chosen: the
        granted ones first, the probes last, and in between the others in the follower's own order."""
        absent, unsent, lowered = self.absent, self._unsent, self._lowered
        omitted, grants = choice.omitted, choice.grants

        def differing(part: Sequence[PartitionKey]) -> list[PartitionKey]:
            return [key for key in part if self._differs(key, limits)]

        def going_on(part: Sequence[PartitionKey]) -> list[PartitionKey]:
            """Return those that are asked for as they were."""
            return [
                key
                for key in part
                if key not in omitted and key not in limits and (key not in absent or key in returning)
            ]

        def back(part: Sequence[PartitionKey]) -> list[PartitionKey]:
            return [key for key in part if key not in limits and key not in unsent and key not in lowered]

        wanted: list[PartitionKey] = []
        if grants:
            wanted += yield from collected(list(grants), differing)
        if unsent:
            wanted += yield from collected(list(unsent), going_on)
        if lowered:
            rest = yield from collected(list(lowered), lambda part: [key for key in part if key not in unsent])
            wanted += yield from collected(rest, going_on)
        if returning:
            wanted += yield from in_wire_order((yield from collected(list(returning), back)))
        if choice.probes:
            rest = yield from collected(list(choice.probes), lambda part: [key for key in part if key not in grants])
            wanted += yield from collected(rest, differing)
        return wanted

    def _differs(self, key: PartitionKey, limits: Mapping[PartitionKey, int]) -> bool:
        entry = self.partitions.get(key)
        if entry is None:
            return False
        if key in self._unsent or key in self.absent:
            return True
        own = entry.partition_max_bytes
        return min(limits[key], own) != self._lowered.get(key, own)

    def _lowered_by(self, limits: Mapping[PartitionKey, int]) -> Steps[dict[PartitionKey, int]]:
        partitions = self.partitions
        return gathered(
            list(limits),
            lambda part: {
                key: limits[key]
                for key in part
                if key in partitions and limits[key] < partitions[key].partition_max_bytes
            },
        )
