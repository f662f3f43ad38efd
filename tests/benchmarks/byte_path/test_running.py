"""The pair as processes, with nothing in between and with a peer that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.byte_path.contenders.every_peer import DIRECT, PEERS
from benchmarks.byte_path.contenders.peer import MissingError, Peer, Place
from benchmarks.byte_path.loads import SMALL, Load
from benchmarks.byte_path.measuring import Times, measure
from benchmarks.byte_path.running import BenchError
from benchmarks.byte_path.runs import RunsFile, read
from tests.benchmarks.orphans import left_behind

if TYPE_CHECKING:
    from pathlib import Path

SHORT = Times(rounds=1, seconds=0.1, warm_up_seconds=0.02)
MIXED = Load("mixed", partitions=3, record_bytes=100_000, kafka_buffers=True, connections=2)


def _missing(place: Place) -> list[str]:
    raise MissingError("nothing-such is not here: apt-get install nothing-such")


def _ends(place: Place) -> list[str]:
    return ["sh", "-c", "echo no such option; exit 3"]


def test_every_run_is_measured_and_what_is_missing_is_named(tmp_path: Path) -> None:
    # In a tenth of a second a busy machine may let one of the processes do nothing at all.
    times = SHORT._replace(seconds=0.5)
    absent = Peer("absent", "", _missing, lambda: "")
    file = tmp_path / "build" / "runs.jsonl"
    peers = [DIRECT, absent, PEERS["decoded"]]
    results, missing = measure(peers, [SMALL, MIXED], times, RunsFile(file, "test"))
    assert [(run.peer, run.load.title) for run in results] == [
        ("direct", "small fetch"),
        ("decoded", "small fetch"),
        ("direct", "mixed, 2 connections, socket buffers as brokers set them"),
        ("decoded", "mixed, 2 connections, socket buffers as brokers set them"),
    ]
    assert missing == {"absent": "nothing-such is not here: apt-get install nothing-such"}
    kept = read([file])
    assert kept.suites == {"test": results}
    assert kept.machines[0].peers["direct"] == "nothing in between"
    for run in results:
        assert run.fetches > 0
        assert run.bytes >= run.fetches * 112
        assert run.p50_us is not None
        assert run.p99_us is not None
        assert run.p50_us <= run.p99_us
        assert (run.proxy.cpu_seconds > 0) == (run.peer == "decoded")
        assert (run.memory.proportional > 0) == (run.peer == "decoded")
        assert run.pair.cpu_seconds > 0


def test_a_run_without_a_fetch_is_named_and_the_others_go_on() -> None:
    """An hour of runs must not end for one that is too slow."""
    slow = Load("slow", partitions=1, record_bytes=64, in_sync=True, connections=1)
    nothing = Load("nothing", partitions=1, record_bytes=0)  # the leader waits max_wait_ms: longer than what counts
    results, missing = measure([DIRECT], [nothing, slow], SHORT, RunsFile(None, "test"))
    assert [run.load.name for run in results] == ["slow"]
    assert missing == {"direct, nothing": "not one fetch in 0.1 s"}


def test_a_peer_that_ends_is_an_error_with_its_last_words() -> None:
    with pytest.raises(BenchError, match=r"broken did not start; its last lines:\nno such option"):
        measure([Peer("broken", "", _ends, lambda: "")], [SMALL], SHORT, RunsFile(None, "test"))


PAIR = """
import time
from benchmarks.byte_path.running import Pair

pair = Pair()
print(pair._leader.pid, pair._follower.pid, flush=True)
time.sleep(60)
"""


def test_the_pair_does_not_outlive_its_benchmark() -> None:
    assert left_behind(PAIR) == []
