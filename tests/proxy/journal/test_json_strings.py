"""What a quota selects, written out by the thread that encodes it."""

from __future__ import annotations

import json
import math

from journal_schema import Kind
from proxy.journal.encoding import Origin, Selection, encode_event, event
from proxy.journal.reports import JournalReports
from proxy.quotas import Partitions, RoleQuota
from proxy.roles import Role

ORIGIN = Origin(101, "20261121T082503Z-ab12")
LONG = {f"topic-{n}": Partitions(frozenset({n, n + 1})) for n in range(1000)}


class Counting:
    """A quota that counts how often its lists are asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def lists(self) -> dict[str, Partitions]:
        self.asked += 1
        return {'a"b': Partitions(frozenset({1, 0})), "*": Partitions(every=True)}


def test_it_is_the_json_of_the_lists() -> None:
    assert str(Selection(RoleQuota(topics=LONG))) == json.dumps(
        {name: str(listed) for name, listed in LONG.items()}, separators=(",", ":")
    )
    assert str(Selection(RoleQuota.of_every_topic(5.0))) == "*"
    assert str(Selection(RoleQuota())) == "{}"


def test_it_is_written_when_its_line_is_encoded_and_once() -> None:
    quota = Counting()
    line = event(
        Kind.QUOTA, 3, role="leader", bytes_per_second=5.0, policy="strict", enforce=True, selection=Selection(quota),
        reason="start",
    )  # fmt: skip
    assert quota.asked == 0
    for _ in range(2):
        encoded = json.loads(encode_event(ORIGIN, line, 7))
        assert json.loads(encoded["selection"]) == {'a"b': "0,1", "*": "*"}
    assert quota.asked == 1


def test_a_long_one_is_written_in_slices() -> None:
    pauses = list[None]()
    Selection(RoleQuota(topics=LONG)).encoded(lambda: pauses.append(None))
    assert len(pauses) > len(LONG) // 100


def test_a_change_of_the_rate_alone_writes_nothing_again() -> None:
    reports = JournalReports(None, "strict")
    quota = RoleQuota(math.inf, topics=LONG)
    first = reports._selection(Role.LEADER, quota)
    assert reports._selection(Role.LEADER, quota.at(5.0)) is first
    assert reports._selection(Role.FOLLOWER, quota) is not first
    assert reports._selection(Role.LEADER, RoleQuota(topics=dict(LONG))) is not first
