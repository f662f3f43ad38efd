"""The table of TLS relays, and that the follower of the benchmark is answered by its leader, over TLS."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.byte_path.loads import SMALL
from benchmarks.tls.ends import BULK, CIPHER, Follower, follower_context, openssl_environment
from benchmarks.tls.measuring import Found, medians
from benchmarks.tls.reporting import table
from benchmarks.tls.ways import NAME
from lab.brokers.authority import Authority
from tests.benchmarks.orphans import left_behind

if TYPE_CHECKING:
    from pathlib import Path

ONE = Found(200e6, 2.0, 100.0, 50.0, 300.0, 1.5, 40.0)
OTHER = Found(300e6, 2.2, 150.0, 100.0, 150.0, 3.0, 60.0)


def test_each_has_its_ratio_to_the_first() -> None:
    lines = table({"haproxy": ONE, "sidecar": OTHER}, 3).splitlines()
    assert lines[-2].startswith("| haproxy | 200 (1.00) | 2.00 (1.00) |")
    assert lines[-1] == (
        "| sidecar | 300 (1.50) | 2.20 (1.10) | 150 (1.50) | 100 (2.00) | 150 (0.50) | 3.00 (2.00) | 60 (1.50) |"
    )
    assert medians([ONE, OTHER, OTHER]) == OTHER


def test_the_first_is_named_as_what_the_others_are_held_against() -> None:
    """HAProxy, unless it is not installed."""
    for first, named in (("haproxy", "HAProxy with its defaults"), ("envoy", "envoy")):
        said = table({first: ONE, "sidecar": OTHER}, 3).splitlines()[0]
        assert said == f"Medians of 3 rounds; in brackets the ratio to {named}."


def test_both_ends_speak_fetch_inside_the_suite_that_is_measured(tmp_path: Path) -> None:
    Authority(tmp_path).issue("own.pem", [NAME])
    command = [sys.executable, "-m", "benchmarks.tls", "--leader", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=openssl_environment(tmp_path)) as leader:
        assert leader.stdout is not None
        follower = Follower(follower_context(tmp_path), int(leader.stdout.readline()))
        assert follower.cipher == CIPHER
        assert follower.fetch(BULK) > 10_000_000
        assert follower.fetch(SMALL) < 300
        follower.close()
        leader.kill()


LEADER = """
import time
from pathlib import Path
from benchmarks.tls.__main__ import leading

with leading(Path({home!r})) as (leader, port):
    print(leader.pid, flush=True)
    time.sleep(60)
"""
RELAY = """
import time
from pathlib import Path
from benchmarks.tls import measuring

with (Path({home!r}) / "log").open("wb") as log, measuring.started(["sleep", "60"], log) as relay:
    time.sleep(0.5)  # by then it is what it was started as, and the kernel knows whose end is its own
    print(relay.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("script", [LEADER, RELAY])
def test_neither_leader_nor_relay_outlives_its_benchmark(script: str, tmp_path: Path) -> None:
    Authority(tmp_path).issue("own.pem", [NAME])
    assert left_behind(script.format(home=str(tmp_path))) == []
