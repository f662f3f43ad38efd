"""Faults of earlier months put back, one at a time, each of which the world finds within ten minutes.

`python -m tests.world.mutants`. A mutant runs in a copy of the sources: first the scenes of its kind, then all of
tests/world. One whose text is no longer there fails, too: it has to follow the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("admission", "protocol", "proxy", "lab", "journal_schema", "pipeline", "tests")
MOST_SECONDS = 600.0


class Mutant(NamedTuple):
    """`old` becomes `new` in one file; `scenes`: the tests of tests/world that are asked first."""

    name: str
    path: str
    old: str
    new: str
    scenes: str


MUTANTS = (
    Mutant(
        "hand-over: the fetch session that left partitions out is forgotten",
        "proxy/throttle/link.py",
        "        self.session.restore(state.session, now)\n",
        "",
        "test_takeover.py",
    ),
    Mutant(
        "grants end where the quota did, within a batch",
        "proxy/throttle/batch_sizes.py",
        "        return size + BATCH_HEADER_BYTES if size else 0",
        "        return 0 if size else 0",
        "test_batches.py",
    ),
    Mutant(
        "500 replicas of a topic at rate 0 take the places of all others",
        "admission/wishes.py",
        "                grants.append(0)\n                continue",
        "                grants.append(0)\n                shared += shared < MAX_SHARED\n                continue",
        "test_hostile.py",
    ),
    Mutant(
        "what is held of a long frame is never released",
        "proxy/relay/requests.py",
        "            self._in_flight.buffers.release(self._reserved)",
        "            self._in_flight.buffers.release(0)",
        "test_hostile.py",
    ),
    Mutant(
        "grants of connections that break never come back",
        "proxy/relay/in_flight.py",
        "        for request in self._fetches:\n            _give_back(request, now)",
        "        for request in ():\n            _give_back(request, now)",
        "test_hostile.py",
    ),
    Mutant(
        "an answer misses the partitions that were left out of its request",
        "proxy/relay/response_edits.py",
        "        entries, version = pending.replays, pending.version",
        "        entries, version = pending.replays[1:], pending.version",
        "test_scene.py",
    ),
    Mutant(
        "bytes that pass are counted twice",
        "proxy/throttle/role_throttle.py",
        "        statistics.throttled_bytes_catching_up += catching_up",
        "        statistics.throttled_bytes_catching_up += 2 * catching_up",
        "test_hostile.py",
    ),
    Mutant(
        "a piece of an edited answer is sent twice where the window is small",
        "proxy/relay/transfer.py",
        "memoryview(bytes(data[sent:])), True",
        "memoryview(bytes(data[max(sent - 1, 0) :])), True",
        "test_hostile.py",
    ),
    Mutant(
        "a replica that was in sync makes up for it when it falls behind",
        "proxy/throttle/replicas.py",
        "            if not returns:",
        "            if False:",
        "test_hostile.py",
    ),
    Mutant(
        "consumers are charged whole answers when they begin",
        "proxy/clients/answers.py",
        "            self._in_flight.count_answer = self._count\n",
        "            self._count(self._left)\n",
        "test_listener.py",
    ),
    Mutant(
        "consumers with a backlog leave catch-up nothing",
        "proxy/clients/uplink.py",
        "CATCH_UP_SHARE = 1 / 10",
        "CATCH_UP_SHARE = 0",
        "test_listener.py",
    ),
    Mutant(
        "a mirror that stood still reads what was written meanwhile as if it were at the tail",
        "proxy/clients/consumers.py",
        "TAIL_SECONDS = 1.0",
        "TAIL_SECONDS = 1000.0",
        "test_catch_up_only.py",
    ),
    Mutant(
        "both ends: who waits for a turn is answered, since it was not heard of for long",
        "proxy/throttle/link.py",
        "        if waits and may_hold and now < demand.deadline:",
        "        if waits and may_hold and now < demand.deadline and not self._unheard_of(granted, now):",
        "test_both_ends.py",
    ),
    Mutant(
        "both ends: the other one has what is left of the follower's time",
        "proxy/throttle/request_builder.py",
        "        if not granted:\n            max_wait_ms = self._max_wait_ms",
        "        if True:\n            max_wait_ms = self._max_wait_ms",
        "test_both_ends.py",
    ),
    Mutant(
        "another quota is shown, and not in force",
        "proxy/throttle/role_throttle.py",
        "        self.budget.change_rate(quota.bytes_per_second, now)\n",
        "",
        "test_hostile.py",
    ),
)


def copy_sources(copy: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", copy)


def found(mutant: Mutant | None, scenes: str, most_seconds: float) -> tuple[bool, str, float]:
    """Return whether a test fails once the mutant is in a copy, the name of that test, and the seconds that it took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_sources(copy)
        if mutant is not None:
            path = copy / mutant.path
            source = path.read_text("utf-8")
            if source.count(mutant.old) != 1:
                return False, f"its text stands {source.count(mutant.old)} times in {mutant.path}", 0.0
            path.write_text(source.replace(mutant.old, mutant.new), "utf-8")
        for wanted in dict.fromkeys([f"tests/world/{scenes}", "tests/world"]):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", wanted]
            left = most_seconds - (time.monotonic() - began)
            try:
                environment = {**os.environ, "PYTHONPATH": str(copy)}
                done = subprocess.run(
                    command, cwd=copy, env=environment, capture_output=True, text=True, timeout=left, check=False
                )
            except subprocess.TimeoutExpired:
                return False, "not within the time", time.monotonic() - began
            if done.returncode == 1:
                failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return True, failed[0][:110] if failed else "", time.monotonic() - began
            if done.returncode:
                return False, f"pytest ended with {done.returncode}: {done.stdout[-300:]}", time.monotonic() - began
    return False, "every test passes", time.monotonic() - began


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="mutants with this in their name")
    options = parser.parse_args(arguments)
    lives = 0
    for mutant in MUTANTS:
        if options.only and options.only not in mutant.name:
            continue
        is_found, where, seconds = found(mutant, mutant.scenes, MOST_SECONDS)
        lives += not is_found
        print(f"{'found' if is_found else 'LIVES'} after {seconds:4.0f} s: {mutant.name}\n    {where}", flush=True)
    return 1 if lives else 0


if __name__ == "__main__":
    sys.exit(main())
