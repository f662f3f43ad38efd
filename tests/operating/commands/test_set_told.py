"""What ``set`` and ``check`` tell of a change: nothing that traffic meets is left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

MIB = 1 << 20
RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
GLOB = f'[brokers.default]\n{RATE} = "50MiB/s"\n{LIST} = "*"\n[topics."o*"]\n{RATE} = "5MiB/s"\n'
EXEMPT = f'{GLOB}[topics.orders]\n{RATE} = "unlimited"\n'
SHARED = "5.00 MiB/s (5242880 B/s) shared with topic o*"


@pytest.fixture
def quotas(config: Path) -> Path:
    path = config.parent / "quotas.toml"
    path.write_text(GLOB)
    return path


@pytest.mark.parametrize(
    ("before", "arguments", "told", "inside"),
    [
        (GLOB, ["unlimited"], f"every broker: leader topic orders {SHARED} -> unlimited\n", None),
        (EXEMPT, ["--remove"], f"every broker: leader topic orders unlimited -> {SHARED}\n", "nothing"),
        (GLOB, ["unlimited", "--for", "1h"], f"(in 1h00m): leader topic orders unlimited -> {SHARED}\n", None),
        ("[brokers.default]\n", ["unlimited"], "every broker: nothing changes now\n", "nothing"),
    ],
)
def test_a_topic_that_a_globs_rate_is_kept_from_is_told(
    sidecar: Sidecar, quotas: Path, before: str, arguments: list[str], told: str, inside: object
) -> None:
    quotas.write_text(before)
    arguments = [RATE, *arguments, "--topic", "orders", "--quotas", str(quotas), "--dry-run"]
    assert told in sidecar("set", *arguments).output
    effects = json.loads(sidecar("set", *arguments, "--json").output)["brokers"]
    for effect in effects:
        assert effect["after"]["leader"]["inside"].get("topic orders", "nothing") == inside


def test_check_shows_a_topic_that_a_globs_rate_is_kept_from(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    quotas.write_text(EXEMPT)
    result = sidecar("check", "--config", config)
    assert "  topic orders  unlimited\n  topic o*      5.00 MiB/s (5242880 B/s)\n" in result.output
    assert json.loads(sidecar("check", "--config", config, "--json").output)["roles"]["leader"]["finer"] == [
        {"kind": "topic", "name": "orders", "quota_bytes_per_second": None},
        {"kind": "topic", "name": "o*", "quota_bytes_per_second": 5 * MIB},
    ]


def test_check_shows_when_a_globs_rate_is_kept_from_a_topic(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    night = f'[[schedules]]\nfrom = 22:00:00\nto = 06:00:00\n[schedules.topics.orders]\n{RATE} = "unlimited"\n'
    quotas.write_text(GLOB + night)
    result = sidecar("check", "--config", config, "--at", "2026-12-01T12:00:00Z")
    assert f"(in 10h00m): leader topic orders {SHARED} -> unlimited\n" in result.output
    assert f"(in 18h00m): leader topic orders unlimited -> {SHARED}\n" in result.output


TINY = "leader: the rate is 50 B/s, less than the 64 KiB that are asked for at a time: "
SIDECARS = "".join(
    f'[[sidecars]]\nbroker = {broker}\nurl = "http://127.0.0.1:{broker - 100}"\nquotas = "quotas.toml"\n'
    for broker in (101, 102)
)
EVERY = f'[brokers.default]\n{RATE} = "50MiB/s"\n{LIST} = "*"\n'
OF_101 = f'[brokers.default]\n{LIST} = "*"\n[brokers.101]\n{RATE} = "5MiB/s"\n'
LISTED = f'[brokers.default]\n{RATE} = "50MiB/s"\n[topics.orders]\n{LIST} = "0:101"\n'


@pytest.mark.parametrize(
    ("before", "arguments", "fleet", "told"),
    [
        (EVERY, ["50"], True, [f"brokers 101, 102: {TINY}"]),
        (EVERY, ["50"], False, [f"every broker: {TINY}"]),
        (OF_101, ["50", "--broker", "default"], True, [f"broker 102: {TINY}"]),
        (OF_101, ["50", "--broker", "default"], False, [f"every other broker: {TINY}"]),
        (EVERY, ["50", "--broker", "101"], False, [TINY]),
        (EVERY, ["40MiB/s"], True, []),
        # What a shared file lists for one broker alone is not amiss on the others.
        (LISTED, ["5MiB/s"], True, []),
        (LISTED, ["5MiB/s"], False, []),
        (LISTED, ["5MiB/s", "--topic", "orders"], False, []),
        # A broker's id in the name of something else.
        (EVERY, ["50", "--rack", "101"], True, ["brokers 101, 102: leader: rack 101: the rate is 50 B/s, less than "]),
    ],
)
def test_a_forgotten_unit_is_warned_of_on_every_broker_that_it_hits(
    sidecar: Sidecar, quotas: Path, before: str, arguments: list[str], told: list[str], *, fleet: bool
) -> None:
    quotas.write_text(before)
    (quotas.parent / "fleet.toml").write_text(SIDECARS)
    where = ["--fleet", str(quotas.parent / "fleet.toml")] if fleet else ["--quotas", str(quotas)]
    output = sidecar("set", RATE, *arguments, *where, "--dry-run").output
    warnings = [line for line in output.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == len(told)
    for line, begins in zip(warnings, told, strict=True):
        assert line.startswith(f"warning: {begins}")
        assert "Was a unit forgotten?" in line
    found = json.loads(sidecar("set", RATE, *arguments, *where, "--dry-run", "--json").output)
    place = found["places"][0] if fleet else found
    assert [f"warning: {each}" for each in place["warnings"]] == warnings


def test_json_says_that_a_rate_sets_itself(sidecar: Sidecar, quotas: Path) -> None:
    """It has the same number as before then, the most that it may be."""
    quotas.write_text(EVERY.replace("50MiB/s", "300MiB/s"))
    arguments = [RATE, "--finish-by", "06:00", "--max", "300MiB/s", "--quotas", str(quotas), "--dry-run", "--json"]
    (effect,) = json.loads(sidecar("set", *arguments).output)["brokers"]
    before, after = effect["before"]["leader"], effect["after"]["leader"]
    assert before.pop("rate_source") is None
    assert after.pop("rate_source") == {
        "words": (
            "what is needed to end by 06:00:00 UTC, from 64.00 KiB/s (65536 B/s) to 300.00 MiB/s (314572800 B/s)"
        ),
        "least_bytes_per_second": 65536,
        "most_bytes_per_second": 300 * MIB,
    }
    assert before == after
