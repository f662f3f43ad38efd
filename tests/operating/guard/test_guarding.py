"""The guard as a process: whatever ends it, it undoes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_GUARD = """
import signal
import operating.guard.kernel as kernel
from operating.guard.guarding import Guarding
kernel.apply = lambda ways, way: print("apply", way, flush=True)
# Whatever the tests inherited: a shell's jobs in the background ignore some.
signal.signal(signal.{name}, signal.SIG_IGN if {ignores} else signal.SIG_DFL)
Guarding(None, "http://127.0.0.1:9", after_seconds=0.5, broker=101, textfile=None).run()
"""
"""Of a sidecar that is not there; the kernel's packet filter is only told about."""

_REFUSED = """
import itertools, signal
import operating.guard.kernel as kernel
from operating.guard.decision import Way
from operating.guard.guarding import Guarding
from proxy.errors import ConfigurationError

tries = itertools.count()

def apply(ways, way):
    if way is Way.AROUND and next(tries) < 4:
        raise ConfigurationError("iptables: it said: no")
    print("apply", way, flush=True)

kernel.apply = apply
Guarding(None, "http://127.0.0.1:9", after_seconds=0.5, broker=101, textfile=None).run()
"""
"""The way around is refused four times, which takes 1.4 s until it is taken."""


def said_by(script: str, *, ended_after: str) -> list[str]:
    """The lines that a guard prints, which is told to end after that one; all but that one."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            said = list(iter(guard.stdout.readline, ended_after))
            guard.send_signal(signal.SIGTERM)
            said += guard.stdout  # until it has ended
        finally:
            guard.kill()
    return said


def test_a_change_that_is_refused_is_told_when_that_begins_and_when_it_is_over() -> None:
    said = said_by(_REFUSED, ended_after="apply Way.AROUND\n")
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert Counter(line["event"] for line in lines)["guard_refused"] == 1
    refused = next(line for line in lines if line["event"] == "guard_refused")
    assert (refused["way"], refused["error"]) == ("around", "iptables: it said: no")
    assert "until then" in refused["advice"]
    taken = next(line for line in lines if line["event"] == "guard_accepted")
    assert (taken["way"], taken["attempts"]) == ("around", 4)
    assert 1.0 < taken["refused_seconds"] < 20.0


_REFUSED_TO_THE_END = """
import itertools
import operating.guard.guarding as guarding
import operating.guard.kernel as kernel
from operating.guard.decision import Answer
from proxy.errors import ConfigurationError

answers = itertools.chain([Answer.NONE] * 6, itertools.repeat(Answer.READY))
guarding.ask_ready = lambda url: next(answers)
guarding.RESET_SECONDS = 0.3

def apply(ways, way):
    if way is not None:
        raise ConfigurationError("ip6tables: it said: no")
    print("apply", way, flush=True)

kernel.apply = apply
guarding.Guarding(None, "", after_seconds=0.5, broker=101, textfile=None).run()
"""
"""The ways around and through are refused until nothing is wanted any more: one table of the two may be in force."""


def test_what_a_refused_change_may_have_left_is_taken_away_when_nothing_is_wanted_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", _REFUSED_TO_THE_END], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            said = list(iter(guard.stdout.readline, "apply None\n"))  # when it starts
            said += iter(guard.stdout.readline, "apply None\n")
            assert guard.poll() is None
            guard.send_signal(signal.SIGTERM)
            said += guard.stdout  # until it has ended
        finally:
            guard.kill()
    events = [json.loads(line)["event"] for line in said if line.startswith("{")]
    assert events == [
        "guard_started",
        "guard_around",
        "guard_refused",
        "guard_through",
        "guard_accepted",
        "guard_stopped",
    ]


_WRITING = """
import itertools
import operating.guard.guarding as guarding
import operating.guard.kernel as kernel
from pathlib import Path

kernel.apply = lambda ways, way: None
guarding._WRITE_SECONDS = 0.0

real, tries = guarding.write_metrics, itertools.count()

def write(path, *rest, **facts):
    number = next(tries)
    if number < 3:
        raise OSError("No space left on device" if number < 2 else "Read-only file system")
    real(path, *rest, **facts)
    print(path.read_text(), flush=True)

guarding.write_metrics = write
guarding.Guarding(None, "http://127.0.0.1:9", after_seconds=0.5, broker=101, textfile=Path({file!r})).run()
"""
"""Writing fails twice of one cause and once of another. What it writes then is printed."""


def test_its_metrics_end_with_it(tmp_path: Path) -> None:
    """Otherwise node_exporter would tell for ever that traffic goes around, and the alert would never end."""
    file = tmp_path / "guard.prom"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITING.format(file=str(file))], stdout=subprocess.PIPE, text=True
    ) as guard:
        try:
            assert guard.stdout is not None
            said = list(iter(guard.stdout.readline, 'replication_throttle_guard_around{broker="101"} 1\n'))
            assert guard.poll() is None
            guard.send_signal(signal.SIGTERM)
            guard.communicate(timeout=30)
        finally:
            guard.kill()
    assert (guard.returncode, list(tmp_path.iterdir())) == (0, [])
    lines = [json.loads(line) for line in said if line.startswith("{")]
    errors = [line["error"] for line in lines if line["event"] == "guard_metrics_not_written"]
    # Once per cause, and not at every look.
    assert errors == ["No space left on device", "Read-only file system"]


_DISTRUSTED = """
import itertools
import operating.guard.guarding as guarding
import operating.guard.kernel as kernel
from operating.asking import DistrustError
from operating.guard.decision import Answer

answers = itertools.count()

def ask(url):
    number = next(answers)
    if number == 8:
        print("enough", flush=True)
    if number < 3 or number > 4:
        raise DistrustError("certificate verify failed")
    return Answer.READY

guarding.ask_ready = ask
kernel.apply = lambda ways, way: print("apply", way, flush=True)
guarding.Guarding(None, "", after_seconds=0.5, broker=101, textfile=None).run()
"""
"""A sidecar whose certificate is not believed, then is, then is not: for longer than the guard waits for an answer."""


def test_a_sidecar_that_is_not_trusted_keeps_its_traffic_and_that_is_told_once() -> None:
    said = said_by(_DISTRUSTED, ended_after="enough\n")
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert [line["event"] for line in lines] == ["guard_started", *["guard_distrusts_sidecar"] * 2, "guard_stopped"]
    assert lines[1]["error"] == "certificate verify failed"
    assert "SSL_CERT_FILE" in lines[1]["advice"]
    assert [line for line in said if line.startswith("apply")] == ["apply None\n"] * 2


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_whatever_signal_ends_it_its_rules_are_gone(name: str) -> None:
    """A terminal that is closed sends SIGHUP, and traffic would go on without a throttle, and without a guard."""
    status, last = _ended_by(name, then=None, ignores=False)
    assert (status, last) == (0, "apply None")


def test_who_asks_for_its_end_is_heard_although_the_signal_was_ignored() -> None:
    """As in a job that a shell began in the background."""
    assert _ended_by("SIGINT", then=None, ignores=True) == (0, "apply None")


def test_what_is_ignored_does_not_end_it() -> None:
    """That is what nohup is for."""
    status, last = _ended_by("SIGHUP", then="SIGTERM", ignores=True)
    assert (status, last) == (0, "apply None")


def _ended_by(name: str, *, then: str | None, ignores: bool) -> tuple[int, str]:
    """Return the exit status, and what was done last to the packet filter."""
    text = _GUARD.format(name=name, ignores=ignores)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            while "AROUND" not in guard.stdout.readline():
                assert guard.poll() is None
            guard.send_signal(signal.Signals[name])
            if then is not None:
                with pytest.raises(subprocess.TimeoutExpired):
                    guard.wait(1.0)
                guard.send_signal(signal.Signals[then])
            said, _ = guard.communicate(timeout=30)
        finally:
            guard.kill()
    return guard.returncode, [line for line in f"apply AROUND\n{said}".splitlines() if line.startswith("apply")][-1]
