from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import METADATA_TOPIC, Quotas, RoleQuota, effective
from proxy.roles import Role

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FILE = f"""
[brokers.default]
leader.replication.throttled.rate = "50MiB/s"
follower.replication.throttled.rate = 1000
follower.replication.throttled.replicas = "*"
[brokers.101]
leader.replication.throttled.rate = "20MB/s"
leader.replication.throttled.replicas = "*"
[brokers.102]
follower.replication.throttled.rate = 0
until = {LATER.isoformat()}
[topics.orders]
leader.replication.throttled.replicas = "0:101,1:102"
[topics.exempt]
leader.replication.throttled.replicas = ""
[topics."click*"]
leader.replication.throttled.replicas = "7:101"
[topics."clicks-*"]
leader.replication.throttled.replicas = "8:101"
[topics.clicks-gone]
leader.replication.throttled.replicas = "9:101"
until = {NOW.isoformat()}
"""


def quotas_of(broker_id: int, now: datetime = NOW, file: str = FILE) -> Quotas:
    return effective(parse_quotas(file.encode()), broker_id, now)


@pytest.mark.parametrize(
    ("broker_id", "role", "now", "bytes_per_second"),
    [
        (101, Role.LEADER, NOW, 20_000_000),  # its own section
        (101, Role.FOLLOWER, NOW, 1000),  # key by key: the default's
        (102, Role.LEADER, NOW, 50 * 2**20),
        (102, Role.FOLLOWER, NOW, 0),
        (102, Role.FOLLOWER, LATER, 1000),  # until is exclusive
        (103, Role.FOLLOWER, NOW, 1000),
    ],
)
def test_the_most_specific_rate_wins(broker_id: int, role: Role, now: datetime, bytes_per_second: float) -> None:
    assert quotas_of(broker_id, now).of(role).bytes_per_second == bytes_per_second


@pytest.mark.parametrize(
    ("broker_id", "topic", "partition", "selected"),
    [
        (101, "orders", 0, True),
        (101, "orders", 1, False),  # exact topic before the broker's *
        (102, "orders", 1, True),
        (101, "anything", 5, True),  # the broker's *
        (102, "anything", 5, False),
        (101, "exempt", 0, False),  # "" exempts from the broker's *
        (101, "clicks", 7, True),
        (101, "clicks-eu", 8, True),  # the longer glob
        (101, "clicks-eu", 7, False),
        (101, "clicks-gone", 9, False),  # its until has come: the glob instead
        (101, "clicks-gone", 8, True),
        (101, "Clicks-eu", 8, True),  # globs mind the case, so this is the broker's *
        (101, "Clicks-eu", 6, True),
        (101, METADATA_TOPIC, 0, False),
    ],
)
def test_the_most_specific_list_wins(broker_id: int, topic: str, partition: int, *, selected: bool) -> None:
    quota = quotas_of(broker_id).leader
    assert quota.selects(topic, partition) is selected
    assert quota.selects(topic, partition) is selected  # from the cache


def test_metadata_is_never_throttled_even_if_named() -> None:
    named = f'[topics.{METADATA_TOPIC}]\nleader.replication.throttled.replicas = "*"'
    assert not quotas_of(1, file=named).leader.selects(METADATA_TOPIC, 0)


def test_without_sections_nothing_is_throttled() -> None:
    quotas = quotas_of(1, file="# nothing")
    for role in Role:
        assert quotas.of(role) == RoleQuota(math.inf)
        assert quotas.of(role).selects_nothing
    assert quotas.enforce
    assert quotas.next_change is None


@pytest.mark.parametrize(
    ("listed", "nothing"),
    [
        ('[topics.a]\nleader.replication.throttled.replicas = "0:2"', True),
        ('[topics.a]\nleader.replication.throttled.replicas = "0:1"', False),
        ('[topics."*"]\nleader.replication.throttled.replicas = ""', True),
        ('[topics."*"]\nleader.replication.throttled.replicas = "*"', False),
        ('[brokers.1]\nleader.replication.throttled.replicas = "*"', False),
        ('[brokers.2]\nleader.replication.throttled.replicas = "*"', True),
    ],
)
def test_a_role_may_select_nothing(listed: str, *, nothing: bool) -> None:
    assert quotas_of(1, file=listed).leader.selects_nothing is nothing
    assert quotas_of(1, file=listed).follower.selects_nothing


def test_the_next_change_is_the_earliest_until_ahead() -> None:
    assert quotas_of(102).next_change == LATER
    assert quotas_of(102, LATER).next_change is None
    assert quotas_of(101).next_change is None  # another broker's section


def test_when_a_quota_ends_is_told_by_role() -> None:
    rate = f"leader.replication.throttled.rate = 5\nuntil = {LATER.isoformat()}\n"
    file = f"[brokers.default]\n{rate}[brokers.101]\nleader.replication.throttled.rate = 5"
    assert quotas_of(1, NOW, file).until == {Role.LEADER: LATER}
    assert quotas_of(101, NOW, file).until == {}  # its own rate does not end
    assert quotas_of(1, LATER, file).until == {}
    mode = f"[mode]\nenforce = false\nuntil = {LATER.isoformat()}"
    assert quotas_of(1, NOW, mode).until == {Role.LEADER: LATER, Role.FOLLOWER: LATER}
    assert not quotas_of(1, NOW, mode).enforce
    assert quotas_of(1, LATER, mode).enforce


def test_a_list_that_names_other_brokers_ends_nothing_here() -> None:
    file = f'[topics.a]\nleader.replication.throttled.replicas = "0:2"\nuntil = {LATER.isoformat()}'
    assert quotas_of(1, file=file).until == {}
    assert quotas_of(2, file=file).until == {Role.LEADER: LATER}


def test_quotas_may_mean_the_same_and_have_another_hash() -> None:
    assert quotas_of(1, file="# a").means_the_same_as(quotas_of(1, file="# b"))
    assert not quotas_of(1).means_the_same_as(quotas_of(101))


def test_what_is_listed_can_be_shown() -> None:
    assert quotas_of(101).leader.listed() == {
        "orders": "0",
        "exempt": "",
        "clicks-*": "8",
        "click*": "7",
        "*": "*",
    }


def test_quotas_can_be_made_without_a_file() -> None:
    quotas = Quotas(leader=RoleQuota.of_every_topic(5.0))
    assert quotas.leader.selects("a", 1)
    assert quotas.follower.selects_nothing


@given(
    topic=st.text("ab-_.", min_size=1, max_size=6),
    partition=st.integers(0, 3),
    broker_id=st.integers(1, 3),
    globs=st.dictionaries(st.text("ab*?", min_size=1, max_size=4), st.sampled_from(["*", "", "1:1,2:2"])),
)
def test_selecting_nothing_means_no_partition_is_selected(
    topic: str, partition: int, broker_id: int, globs: dict[str, str]
) -> None:
    file = "".join(f'[topics."{g}"]\nleader.replication.throttled.replicas = "{r}"\n' for g, r in globs.items())
    quota = quotas_of(broker_id, file=file).leader
    assert not (quota.selects_nothing and quota.selects(topic, partition))


def test_equal_lists_are_shared_and_what_is_known_of_them_with_them() -> None:
    content = (
        b'[topics."a*"]\nleader.replication.throttled.replicas = "*"\n[topics.b]\n'
        b'leader.replication.throttled.replicas = "0:1"\n'
    )
    old, new, other = (
        effective(parse_quotas(text), 1, NOW).leader for text in (content, content + b"# same", b"# none")
    )
    assert old.selects("aa", 1)
    assert not new.has_lists_of(old)
    shared = new.at(7.0).sharing_lists_of(old)
    assert shared.has_lists_of(old)
    assert shared.bytes_per_second == 7.0
    assert shared._resolved is old._resolved
    assert other.sharing_lists_of(old) is other
    assert (shared.named, other.named) == (("b",), ())
