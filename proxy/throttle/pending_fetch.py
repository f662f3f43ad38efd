"""A forwarded Fetch request, and what is to be done with its response.

Built by `link` when the request is decided and kept with the request until its response comes. The relay reports the
response in this order, which `lost` may end at any point:

    must_discard ─▶ answered ─▶ ( charge_on_send ─▶ the bytes go ─▶ forwards ) for each piece ─▶ finish

What is over quota when the answer begins is kept back from all of it; what is accounted for has gone. Pure.

Invariants: a full response carries exactly the partitions that the follower asked for (what was omitted is
replayed); an entry with an error is never altered; every grant is settled once, whatever happens.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from admission.wishes import is_many
from protocol.fetch.batches import BatchWalk, batch_size

from ..roles import Role
from .budget_claim import give_back
from .replica import BEHIND, FIRST_CONTACT_BYTES, IN_SYNC
from .role_throttle import BranchTraffic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set

    from admission.shares import Claim
    from protocol.fetch.request import Asked
    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import ResponseEntry
    from protocol.session.requests import PartitionKey
    from protocol.session.translator import Translation
    from protocol.wire.framing import Bytes

    from ..ledger.link_journal import LinkJournal
    from .budget_claim import BudgetClaim
    from .replica import Replica
    from .replicas import Replicas
    from .role_throttle import RoleThrottle


_LEADER = Role.LEADER


class PendingFetch:
    """`grants` are the bytes reserved for partitions that were asked for, `replays` the entries to append for those
    that were not. `traffic` records for the journal, if one is kept."""

    def __init__(
        self,
        throttle: RoleThrottle,
        claim: BudgetClaim,
        replicas: Replicas,
        grants: dict[PartitionKey, int],
        version: int,
        admitted_at: float,
        traffic: LinkJournal | None,
    ) -> None:
        self.throttle = throttle
        self.path = claim.path
        self.replicas = replicas
        self.grants = grants
        if grants:
            self.branches = claim.branches
        self.version = version
        self.admitted_at = admitted_at
        self.traffic = traffic

    # One is made for every fetch. Values that few fetches change are the class's, which costs nothing to make.
    observed: Set[PartitionKey] = frozenset()
    """The replicas that enforcing would have omitted; only in observe mode."""
    first: PartitionKey | None = None
    """The first one asked for that is behind: the leader sends at least one batch, however small its limit (KIP-74)."""
    replays: Sequence[ReplayedEntry] = ()
    encoded_replays: tuple[int, bytes] | None = None
    """The same as `replayed_topics` encodes them, if they are many: that is done in steps, as the request is."""
    confirms: Set[PartitionKey] = frozenset()
    """Replicas that are behind and were requested without a grant, because no entry can be replayed for them: the
    leader's entry goes on to the follower, but without its records."""
    brought = False
    """True once records of what was granted have gone on."""
    brought_nothing = False
    """True if the answer is over, and had no records of what was granted."""
    is_tight = False
    """True if the budget has less than what is wished for: it matters whether grants end where batches do."""
    has_news = False
    """True once records, or a throttled replica's error, have gone on to the follower: an equal answer would be news
    again."""
    is_timed = False
    """True if the time to the first granted records has been measured: a rate with `auto` is chosen by how long leaders
    take to answer, and how long followers take to come back."""
    catches_up = False
    """True if at least one replica that is behind was requested."""
    branches: Mapping[PartitionKey, Claim] = MappingProxyType({})
    """The part of `grants` that is reserved in its topic's budget too."""
    translation: Translation[Asked] | None = None
    """The request's part in its fetch session; None before Fetch v7."""

    def answered(self, error_code: int, session_id: int) -> None:
        """Record the head of the leader's answer, which is about to go on."""
        if self.translation is not None:
            self.translation.answered(error_code, session_id)

    def teaches(self) -> int | None:
        """Return the number of the present state of knowledge: while it stays the same, an answer without records that
        equals the one before teaches nothing new. None: every entry must be read."""
        return None if self.traffic is not None or self.translation is not None else self.replicas.generation

    def must_discard(self, now: float) -> bool:
        """Return True if records of replicas that are behind are over quota, so that they must be discarded: the answer
        is to be kept until its end, or `passes_all` is due."""
        throttle = self.throttle
        if self.catches_up and throttle.enforce:
            behind = self.replicas.behind
            if self.path.must_discard(self.admitted_at, now):
                self.confirms = frozenset(behind)
            elif self.path.branches:
                over = self.path.overloaded_branches(self.admitted_at, now)
                self.confirms |= {key for key in behind if throttle.tree.branch(key[0]) in over}
        return bool(self.confirms)

    def passes_all(self) -> None:
        """Let all records pass, although they are over quota: there is no room to keep the answer."""
        self.confirms = frozenset()

    def charge_on_send(self, entries: Collection[ResponseEntry], now: float) -> None:
        """Charge the records of entries that are about to go on as they are, to all budgets that bound them, for
        `RoleThrottle.charges_on_send` (policy `kip73`; `strict` has reserved the bytes before).

        A leader records an answer before it sends it. If bytes counted only once they have gone, of several answers
        that come at once each would begin within the quota. What is charged here counts once, whether `forwards`
        settles it or not (the connection ended, or the follower has stopped asking for the partition).
        """
        if self.confirms:
            return
        known, grants, path, tail_is_free = self.replicas.known, self.grants, self.path, self.replicas.policy.count
        leads, enforce = self.throttle.role is _LEADER, self.throttle.enforce
        for topic, partition, error_code, _, _, _, entry_at, records_at, size in entries:
            key = (topic, partition)
            if size <= 0 or error_code or key not in known or key in self.observed:
                continue
            if tail_is_free and key not in grants and known[key].is_at_tail:
                continue
            used = size + records_at - entry_at if leads else size
            charged = used if enforce else min(used, grants.get(key, used))
            path.charge_on_send(self.branch_of(key), charged, now)

    def watch(self, entry: ResponseEntry) -> BatchWalk | None:
        """Return what is to walk the records of an entry while they pass; None if it does not matter where their
        batches end."""
        replica, size = self.replicas.known.get((entry.topic, entry.partition)), entry.records_size
        return None if replica is None or not self._is_cut(replica, size) else BatchWalk(size)

    def _is_cut(self, replica: Replica, size: int) -> bool:
        """Return True if records probably end within a batch that is not small beside them, because no more were
        granted."""
        granted = self.grants.get(replica.key, 0)
        return self.is_tight and 0 < granted <= size and not is_many(size, replica.batches.largest)

    def branch_of(self, key: PartitionKey) -> Claim | None:
        """Return the claim in the budget of a partition's topic, if that has one; of a grant, where it is reserved."""
        tree = self.throttle.tree
        if key in self.grants or not tree.has_branches:
            return self.branches.get(key)
        node = tree.branch(key[0])
        return None if node is None else self.path.branch(node)

    def withholds(self, entry: ResponseEntry) -> bool:
        """Return True if the records of this entry are among those that must be discarded."""
        key = (entry.topic, entry.partition)
        return not entry.error_code and entry.records_size > 0 and key in self.confirms

    def forwards(  # noqa: C901 - every entry goes through here, and each call costs
        self,
        entries: Collection[ResponseEntry],
        buffer: Bytes,
        end: int,
        now: float,
        batches: BatchWalk | None = None,
    ) -> None:
        """Settle entries that have gone on to the follower: learn from them, account for their records. All are as they
        came, but for records that `withholds` kept back.

        Positions in them are offsets in `buffer`, which holds nothing from `end` on. `batches` has walked the records
        of the only entry while they passed. The bytes accounted for are those that Kafka's own throttle records
        (KIP-73): as a follower the records' bytes, as a leader the entry's bytes on the wire.
        """
        if self.confirms:
            entries = self._discard(entries, now)
        if self.traffic is not None:
            self.traffic.forwarded(entries, now)
        known, is_tight = self.replicas.known, self.is_tight
        if self.replicas.policy.of_consumers:
            self._learn_stable_offsets(entries)
        expects = None if self.translation is None else self.translation.expects
        brought: list[tuple[Replica, int, int, int]] = []
        walked: dict[PartitionKey, BatchWalk] = {}
        beside = False
        for (
            topic, partition, error_code, high_watermark, _, log_start_offset, entry_at, records_at, size,
        ) in entries:  # fmt: skip
            key = (topic, partition)
            if expects is not None:
                expects(key)
            replica = known.get(key)
            if replica is None:
                beside |= size > 0
                continue
            if error_code:
                self.has_news = True
                self.replicas.refused(key, error_code)
                continue
            if high_watermark != replica.high_watermark:
                self.replicas.progressed(replica, high_watermark, now)
            replica.log_start_offset = log_start_offset
            replica.replayable = True
            if size > 0:
                if size > replica.batches.largest and replica.standing is not IN_SYNC:
                    replica.saw_batch(batch_size(buffer, records_at, end))
                brought.append((replica, size, entry_at, records_at))
                if is_tight and key in self.grants and self._is_cut(replica, size):
                    found = batches or BatchWalk(size)
                    found.look(buffer, records_at, end)
                    walked[key] = found
        self.has_news |= beside or bool(brought)
        if brought:
            self._account(brought, now)
            for key, found in walked.items():
                self.replicas.saw_batches(known[key], found)
        if beside and self.throttle.paces:
            self.replicas.timings.records_go_on(now, in_sync=True)

    def _learn_stable_offsets(self, entries: Collection[ResponseEntry]) -> None:
        """Record where committed reads end, as entries go on."""
        known, changed = self.replicas.known, self.replicas.changed
        for topic, partition, error_code, _, stable_offset, *_ in entries:
            replica = known.get((topic, partition))
            if replica is not None and not error_code and stable_offset != replica.last_stable_offset:
                replica.last_stable_offset = stable_offset
                changed[replica] = None

    def _account(self, brought: list[tuple[Replica, int, int, int]], now: float) -> None:
        """Account for records that go on. Each item: replica, bytes of records, where its entry and they begin."""
        replicas, changed, grants, observed = self.replicas, self.replicas.changed, self.grants, self.observed
        leads, enforce, behind = self.throttle.role is _LEADER, self.throttle.enforce, BEHIND
        serve, count = replicas.order.serve, replicas.policy.count
        has_branches = bool(self.branches) or self.throttle.tree.has_branches
        of_branches: dict[Claim, BranchTraffic] = {}
        free = in_sync = catching_up = reserved = taken = ungranted = withheld = 0
        for replica, size, entry_at, records_at in brought:
            key = replica.key
            branch = self.branch_of(key) if has_branches else None
            granted = grants.pop(key, 0)
            changed[replica] = None
            replica.delivered(size, granted, now)
            charged = used = size + records_at - entry_at if leads else size
            if count is not None and not granted and replica.is_at_tail:
                free += used
                continue
            if replica.standing is behind:
                catching_up += used
            else:
                in_sync += used
            if granted:
                # In observe mode more may come than was granted, since nothing was asked to be less.
                charged = used if enforce else min(used, granted)
                serve(replica, size)
                reserved += granted
                taken += charged
            else:
                if observed and key in observed:
                    charged = 0
                    withheld += used
                ungranted += charged
            if branch is not None:
                of_branches.setdefault(branch, BranchTraffic(branch)).add(used, granted, charged)
        self.brought |= reserved > 0
        replicas.order.has_brought |= reserved > 0
        self.throttle.account(
            self.path, now, in_sync, catching_up,
            reserved=reserved, granted=taken, ungranted=ungranted, observed=withheld, branches=of_branches.values(),
        )  # fmt: skip
        if count is not None:
            count(free, in_sync + catching_up, now)
        if self.throttle.paces:
            self.replicas.timings.records_go_on(now, in_sync=in_sync + free > 0)
            if reserved and not self.is_timed and self.throttle.is_auto:
                self.is_timed = True
                self.replicas.timings.answered(now - self.admitted_at)

    def _discard(self, entries: Collection[ResponseEntry], now: float) -> list[ResponseEntry]:
        """Settle those whose records were kept back; return the others."""
        others: list[ResponseEntry] = []
        for entry in entries:
            if self.withholds(entry):
                self._without_records(entry, now)
            else:
                others.append(entry)
        return others

    def _without_records(self, entry: ResponseEntry, now: float) -> None:
        key = entry.topic, entry.partition
        if self.traffic is not None:
            self.traffic.withheld((key,), now)
        replica = self.replicas.known.get(key)
        # A follower that does not wait for its answers may have stopped asking for the partition since.
        if replica is not None:
            self.replicas.progressed(replica, entry.high_watermark, now)
            replica.answered(high_watermark=entry.high_watermark, log_start_offset=entry.log_start_offset)
        statistics = self.throttle.statistics
        statistics.substituted_partitions += 1
        statistics.withheld_bytes += entry.records_size

    def finish(self, now: float) -> None:
        """End the response: give back the grants that brought no records, forget what was charged early and has not
        been settled."""
        if self.grants:
            self._end_grants(now)
        if self.throttle.charges_on_send:
            self.path.forget_early_charges()

    def _end_grants(self, now: float) -> None:
        whole_session = self.translation is not None
        self.replicas.order.has_brought = self.brought
        self.brought_nothing = not self.brought
        for key, size in self.grants.items():
            replica = self.replicas.known.get(key)
            if replica is not None:
                if not whole_session:  # in one, `stalled` counts them
                    replica.unused()
                if size > FIRST_CONTACT_BYTES and (whole_session or key == self.first):
                    replica.stalled(needs_more=whole_session)
                    self.replicas.order.stall(replica)
        self._give_back(now)

    def lost(self, now: float) -> None:
        """Give all grants back: no response comes any more, or not all of it, or it cannot be understood."""
        if self.translation is not None:
            self.translation.lost()
        self._give_back(now)

    def _give_back(self, now: float) -> None:
        give_back(self.path, self.grants, self.branches, now)
        self.grants.clear()
