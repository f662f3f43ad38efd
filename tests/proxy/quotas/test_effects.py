"""Which keys two files differ in, and what that does to what is in force."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from proxy.quotas import parse_quotas
from proxy.quotas.layer_values import Effect, LayerIndex, differing, effects_of, ended, with_file
from proxy.quotas.override import Override, PlacedValue, layer_of

RATE, LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
BASE = f'[brokers.default]\n{RATE} = "20MiB/s"\n{LIST} = "*"\n'


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BASE, BASE + "# a comment\n", []),
        (BASE, BASE.replace("20", "5"), [("broker", RATE)]),
        (BASE, BASE + f'[brokers.101]\n{RATE} = "1MiB/s"\n', [("broker", RATE)]),
        (BASE, BASE + f'[brokers.102]\n{RATE} = "1MiB/s"\n', []),
        (BASE + "[mode]\nenforce = false\n", BASE, [("mode", "enforce")]),
        (BASE, BASE + f'[topics."a-*"]\n{LIST} = "0:101"\n', [("topics.a-*", LIST)]),
        (BASE, BASE + '[clients.etl]\nproducer_byte_rate = "5MiB/s"\n', [("clients.etl", "producer_byte_rate")]),
        (BASE, BASE + '[listener]\nrate = "5MiB/s"\n', [("listener", "rate")]),
        (BASE, BASE + f'[peers.102]\n{RATE} = "5MiB/s"\n', [("peers.102", RATE)]),
        (BASE, BASE + f'[racks.b]\n{RATE} = "5MiB/s"\n', [("racks.b", RATE)]),
        (BASE, BASE + "until = 2026-12-02T00:00:00Z\n", [("broker", RATE), ("broker", LIST)]),
    ],
)  # fmt: skip
def test_the_keys_that_two_files_give_differently(before: str, after: str, expected: list[tuple[str, str]]) -> None:
    old, new = (parse_quotas(each.encode(), source="q") for each in (before, after))
    assert differing(old.base, new.base, 101) == expected


def test_a_value_that_an_override_hides_is_told_beside_the_one_in_force() -> None:
    override = Override(id="aaaa", by="op", since=NOW, changes=(PlacedValue("broker", RATE, "1MiB/s"),))
    old, new = (parse_quotas(each.encode(), source="q") for each in (BASE, BASE.replace("20", "5")))
    for above, file in (((), None), ((layer_of(override, 101),), "5.00 MiB/s (5242880 B/s)")):
        before, after = (LayerIndex(replace(each, overrides=above), 101) for each in (old, new))
        (found,) = with_file(effects_of([("broker", RATE)], before, after, NOW, NOW), after, NOW)
        assert (found.after == found.before, found.file) == (bool(above), file)


def test_a_section_that_has_ended_gives_way() -> None:
    text = BASE + f'[brokers.101]\n{RATE} = "1MiB/s"\nuntil = 2026-12-01T00:00:10Z\n'
    file = parse_quotas(text.encode(), source="q")
    later, index = NOW + timedelta(seconds=11), LayerIndex(file, 101)
    assert ended(file.base, NOW, NOW, 101) == []
    keys = ended(file.base, NOW, later, 101)
    assert list(effects_of(keys, index, index, NOW, later)) == [
        Effect(
            *("broker", RATE, "1.00 MiB/s (1048576 B/s)", "brokers.101"),
            *("20.00 MiB/s (20971520 B/s)", "brokers.default"),
        )
    ]
