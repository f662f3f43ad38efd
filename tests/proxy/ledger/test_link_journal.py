"""What a conversation leaves in the journal's ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal_schema import LINE_SECONDS
from protocol.fetch.walker import RequestEntry, ResponseEntry
from proxy.ledger import link_journal
from proxy.ledger.blocks import Position, Sums, Traffic
from proxy.ledger.ledger import Ledger
from proxy.ledger.link_journal import LinkJournal
from proxy.quotas import Quotas, RoleQuota
from proxy.roles import Role
from proxy.throttle.decision import Answer, Forward
from tests.proxy.conversation import ENTRY_BYTES, MIB, Conversation, throttle

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey
    from protocol.wire.topics import Topic

T0, T1 = ("t", 0), ("t", 1)


def conversation(bytes_per_second: float = 4 * MIB, *, role: Role = Role.LEADER, enforce: bool = True) -> Conversation:
    of = throttle(bytes_per_second, role=role, enforce=enforce)
    of.ledger = Ledger(0.0)
    found = Conversation(of)
    found.offsets = {T0: 0}
    return found


def told(of: Conversation) -> list[Traffic]:
    """Blocks of one partition each, what was in sync first."""
    assert of.throttle.ledger is not None
    blocks = of.throttle.ledger.cut(of.now + 1)
    return sorted(
        (traffic for block in blocks for traffic in block.traffic_lines()), key=lambda block: not block.link.in_sync
    )


def test_first_contact_counts_as_in_sync_and_what_follows_as_behind() -> None:
    """As the quota counts: what is unknown is in sync."""
    found = conversation()
    found.answer(found.ask(), {T0: 2000})
    found.now = 0.2
    found.answer(found.ask(), {T0: 3000})
    first, second = told(found)
    assert (first.link.in_sync, first.seconds.record_bytes[0]) == (True, 2000)
    assert first.seconds.wire_bytes[0] == 2000 + ENTRY_BYTES
    assert (second.link.in_sync, second.seconds.record_bytes[0]) == (False, 3000)
    (replica,) = second.replicas
    assert (replica.topic, replica.fetches, replica.omitted, replica.header_bytes) == ("t", 1, 0, ENTRY_BYTES)
    assert replica.position == Position(2, 1_000_000, -1)
    assert (second.link.role, second.link.peer, second.link.throttled) == ("leader", "102", True)


def test_a_replica_that_the_leader_refuses_is_never_told_as_in_sync() -> None:
    found = conversation()
    for code in (29, 31, 6):
        found.answer(found.ask(), error=code)
        found.now += 0.1
    assert told(found) == []


def test_what_is_left_out_and_what_is_answered_here_is_omitted() -> None:
    found = conversation(0.0)
    found.meet()
    found.ask()  # held
    found.now = 0.6
    assert isinstance(found.decide(), Answer)
    (block,) = (block for block in told(found) if sum(block.seconds.omitted))
    (replica,) = block.replicas
    assert (sum(replica.second_bytes), replica.omitted, replica.position) == (0, 1, Position(0, 1_000_000, -1))


def test_with_a_journal_what_is_not_throttled_is_looked_at_too() -> None:
    found = conversation()
    found.throttle.apply(Quotas(leader=RoleQuota(4 * MIB)), 0.0)
    decision = found.ask()
    assert isinstance(decision, Forward)
    assert decision.frame is None
    found.answer(decision, {T0: 2000}, high_watermark=5)
    found.now = 0.1
    found.answer(found.ask(), {T0: 1000}, high_watermark=5)
    first, second = told(found)
    assert (first.link.throttled, first.link.in_sync, first.seconds.record_bytes[0]) == (False, True, 2000)
    assert (second.link.throttled, second.link.in_sync, second.seconds.record_bytes[0]) == (False, False, 1000)


def test_without_a_journal_what_is_not_throttled_is_not_looked_at() -> None:
    found = conversation()
    found.throttle.ledger = None
    found.throttle.apply(Quotas(leader=RoleQuota(4 * MIB)), 0.0)
    found = Conversation(found.throttle, offsets={T0: 0})
    assert found.ask() == Forward(None, None)


def test_entries_with_errors_are_not_told() -> None:
    found = conversation()
    found.answer(found.ask(), error=6)
    assert told(found) == []


def test_who_has_caught_up_is_told_by_its_request() -> None:
    """Within a fetch session (v7+) the answer has no entry for it, and so may all later ones."""
    found = conversation()
    found.answer(found.ask(), high_watermark=4)
    found.answer(found.ask(), {T0: 4000}, high_watermark=4)
    found.ask()
    (in_sync,) = (block for block in told(found) if block.link.in_sync and block.replicas[0].position.fetch_offset)
    assert in_sync.replicas[0].position == Position(4, 4, -1)
    assert in_sync.seconds.record_bytes[0] == 0


@pytest.mark.parametrize("role", Role)
def test_what_the_ledger_was_told_is_what_the_quota_was_charged(role: Role) -> None:
    found = conversation(MIB, role=role)
    found.offsets = {T0: 0, T1: 0}
    for _ in range(50):
        decision = found.ask()
        if isinstance(decision, Forward):
            granted = decision.pending.grants if decision.pending is not None else {}
            found.answer(decision, {key: size // 1000 * 1000 for key, size in granted.items()})
        found.now += 0.05
    blocks = told(found)
    statistics = found.throttle.statistics

    def accounted(block: Traffic) -> int:
        return sum(block.seconds.record_bytes if role is Role.FOLLOWER else block.seconds.wire_bytes)

    assert sum(map(accounted, blocks)) == (statistics.throttled_bytes_catching_up + statistics.throttled_bytes_in_sync)
    behind = sum(accounted(block) for block in blocks if not block.link.in_sync)
    assert behind == statistics.throttled_bytes_catching_up
    assert sum(sum(block.seconds.omitted) for block in blocks) == statistics.omitted_partitions


@dataclass
class Stand:
    """A throttled replica as a journal sees it."""

    fetch_offset: int = 0
    high_watermark: int = 9
    log_start_offset: int = 1

    @property
    def is_behind(self) -> bool:
        return self.fetch_offset < self.high_watermark


partitions = st.sampled_from([0, 0, 1, 3])
stands = st.sampled_from([(0, 9, 1), (9, 9, 1), (0, 10, 2)])
events = st.one_of(
    st.tuples(st.just("withheld"), st.lists(partitions, max_size=6)),
    st.tuples(st.just("waited"), st.sampled_from([0.1, 0.4, 1.0, 16.0])),
    st.tuples(st.just("moved"), st.tuples(partitions, stands)),
    st.tuples(
        st.just("forwarded"), st.tuples(partitions, st.sampled_from([9, 10]), st.sampled_from([0, 6]), st.just(50))
    ),
    st.tuples(st.just("asked"), st.tuples(partitions, st.sampled_from([0, 9]))),
    st.tuples(st.just("known"), partitions),
    st.tuples(st.just("peer"), st.sampled_from(["102", "103"])),
    st.tuples(st.just("named"), st.sampled_from(["id", "name"])),
    st.tuples(st.just("cut"), st.none()),
)


class Journalled:
    """A journal to which events are reported, and its lines."""

    def __init__(self) -> None:
        self.now, self.name = 0.0, "id"
        self.known: dict[PartitionKey, Stand] = {("t", partition): Stand() for partition in range(3)}
        self.ledger = Ledger(0.0)
        self.journal = LinkJournal(self.ledger, Role.LEADER, "102", topic_name=self._name, known=self.known)
        self.lines: list[Traffic] = []

    def _name(self, topic: Topic) -> str:
        return f"{topic!s} {self.name}"

    def report_all(self, reported: list[tuple[str, object]]) -> None:
        """Report these, with omissions in between, and end the block."""
        for event in reported:
            self.report("withheld", [0, 1])
            self.report(*event)
        self.cut()

    def report(self, kind: str, what: object) -> None:
        match kind, what:
            case "withheld", list():
                self.journal.withheld([("t", partition) for partition in what], self.now)
            case "waited", float():
                self.now += what
            case "moved", (partition, stand):
                self.known["t", partition] = Stand(*stand)
            case "forwarded", (partition, high, error, size):
                entry = ResponseEntry("t", partition, error, high, -1, 1, 0, 18, size)
                self.journal.forwarded([entry], self.now)
            case "asked", (partition, offset):
                self.journal.asked([RequestEntry("t", partition, -1, offset, 1000, 0, 0)], self.now)
            case "known", partition:
                self.known.pop(("t", int(str(partition))), None)
            case "peer", str():
                self.journal.peer = what
            case "named", str():
                self.name = what
            case _:
                self.cut()

    def cut(self) -> None:
        self.lines += [line for block in self.ledger.cut(self.now) for line in block.traffic_lines()]


@given(st.lists(events, max_size=40), st.sampled_from([3, link_journal.MAX_SEEN]))
def test_omissions_are_told_the_same_whether_sums_are_looked_up_or_kept(
    reported: list[tuple[str, object]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_journal, "MAX_SEEN", most)
        kept, looked_up = Journalled(), Journalled()
        kept.report_all(reported)
        patch.setattr(Sums, "omit_again", lambda *_: False)
        looked_up.report_all(reported)
    assert kept.lines == looked_up.lines
    assert kept.ledger.dropped == looked_up.ledger.dropped


def test_nothing_of_a_block_that_has_ended_is_kept_by_replicas_that_caught_up() -> None:
    """Of 20 000 partitions it was 10 MB, for as long as nothing was left out again."""
    journalled = Journalled()
    journalled.report("withheld", [0, 1])
    assert len(journalled.journal._left_out) == 2
    journalled.report("waited", LINE_SECONDS + 1.0)
    journalled.report("asked", (0, 9))
    assert not journalled.journal._left_out
