"""The table of TLS relays, and that the follower of the benchmark is answered by its leader, over TLS."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.byte_path.loads import SMALL
from benchmarks.tls.ends import BULK, CIPHER, Follower, follower_context, openssl_environment
from benchmarks.tls.measuring import Found, medians
from benchmarks.tls.reporting import table
from benchmarks.tls.ways import NAME
from lab.authority import Authority

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
