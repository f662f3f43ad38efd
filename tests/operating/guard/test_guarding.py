"""The guard as a process: whatever ends it, it undoes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from operating.guard.decision import Answer
from operating.guard.rules import Rules
from proxy.errors import ConfigurationError

from .edges import FakeFilter, guard

if TYPE_CHECKING:
    from pathlib import Path

_GUARD = """
import signal
from tests.operating.guard.edges import FakeFilter, guard
# Whatever the tests inherited: a shell's jobs in the background ignore some.
signal.signal(signal.{name}, signal.SIG_IGN if {ignores} else signal.SIG_DFL)
guard(FakeFilter()).run()
"""
"""Of a sidecar that is not there; the kernel's packet filter is only told about."""

_REFUSED = """
from tests.operating.guard.edges import FakeFilter, guard
guard(FakeFilter(around=["no"] * 4)).run()
"""
"""The way around is refused four times, which takes 1.4 s until it is taken."""


def said_by(script: str, *, ended_after: str) -> list[str]:
    """The lines that a guard prints, which is told to end after the first with that in it."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            said = []
            while ended_after not in "".join(said[-1:]):
                said.append(guard.stdout.readline())
                assert guard.poll() is None
            guard.send_signal(signal.SIGTERM)
            said += guard.stdout  # until it has ended
        finally:
            guard.kill()
    return said


def test_a_change_that_is_refused_is_told_when_that_begins_and_when_it_is_over() -> None:
    said = said_by(_REFUSED, ended_after="put AROUND\n")
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert Counter(line["event"] for line in lines)["guard_refused"] == 1
    refused = next(line for line in lines if line["event"] == "guard_refused")
    assert (refused["way"], refused["error"]) == ("around", "iptables: it said: no")
    assert "until then" in refused["advice"]
    taken = next(line for line in lines if line["event"] == "guard_accepted")
    assert (taken["way"], taken["attempts"]) == ("around", 4)
    assert 1.0 < taken["refused_seconds"] < 20.0


_LED_BACK = ["put BACK", "guard_accepted", "guard_through"]


@pytest.mark.parametrize(
    ("around", "back", "changes", "expected"),
    [
        ([], ["no"] * 2, 2, ["put AROUND", "guard_refused", *_LED_BACK]),
        ([], ["no"] * 99, 1, ["put AROUND", "guard_refused"]),
        (["no"] * 99, [], 0, ["guard_refused", *_LED_BACK]),
        (["partly"] * 99, ["no"], 2, ["guard_refused", *_LED_BACK]),
    ],
    ids=["back after two refusals", "never back", "never around", "a part of it around"],
)
def test_through_is_said_and_counted_once_it_is_so(
    around: list[str],
    back: list[str],
    changes: int,
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was said when the sidecar answered again, while iptables refused the way back and led around all the same."""
    packet_filter, file, looks = FakeFilter(around=around, back=back, nothing=["no"]), tmp_path / "guard.prom", [5]

    def ask() -> Answer:
        if Rules.AROUND not in packet_filter.tried:
            return Answer.NONE
        if packet_filter.tried.count(Rules.BACK) > min(len(back), 2):
            looks.append(looks.pop() - 1)
        if not looks[0]:
            raise ConfigurationError("it is over")
        return Answer.READY

    with pytest.raises(ConfigurationError):
        guard(packet_filter, ask=ask, textfile=file).run()
    lines = [json.loads(each)["event"] if each[0] == "{" else each for each in capsys.readouterr().out.splitlines()]
    of_proofs = {"guard_proved", "guard_around"}
    said = [line for line in lines if line not in of_proofs]
    assert said == ["put STANDBY", "guard_started", "guard_sidecar_silent", *expected]
    assert f'replication_throttle_guard_changes_total{{broker="101"}} {changes}\n' in file.read_text()


_REFUSED_TO_THE_END = """
import itertools
import operating.guard.guarding as guarding
from operating.guard.decision import Answer
from tests.operating.guard.edges import FakeFilter, guard

answers = itertools.chain([Answer.NONE] * 6, itertools.repeat(Answer.READY))
guarding.RESET_SECONDS = 0.3
guard(FakeFilter(around=["no"] * 99, back=["no"] * 99), ask=lambda: next(answers)).run()
"""
"""The ways around and back are refused until only the guard's own are wanted: one table of the two may be in force."""


def test_what_a_refused_change_may_have_left_is_taken_away_when_nothing_is_wanted_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", _REFUSED_TO_THE_END], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            said = list(iter(guard.stdout.readline, "put STANDBY\n"))  # when it starts
            said += iter(guard.stdout.readline, "put STANDBY\n")
            assert guard.poll() is None
            guard.send_signal(signal.SIGTERM)
            said += guard.stdout  # until it has ended
        finally:
            guard.kill()
    events = [json.loads(line)["event"] for line in said if line.startswith("{")]
    assert [event for event in events if event != "guard_proved"] == [
        "guard_started",
        "guard_sidecar_silent",
        "guard_refused",
        "guard_accepted",
        "guard_through",
        "guard_stopped",
    ]


_WRITING = """
import itertools
import operating.guard.guarding as guarding
from pathlib import Path
from tests.operating.guard.edges import FakeFilter, guard

guarding._WRITE_SECONDS = 0.0

real, tries = guarding.write_metrics, itertools.count()

def write(path, *rest, **facts):
    number = next(tries)
    if number < 3:
        raise OSError("No space left on device" if number < 2 else "Read-only file system")
    real(path, *rest, **facts)
    print(path.read_text(), flush=True)

guarding.write_metrics = write
guard(FakeFilter(), textfile=Path({file!r})).run()
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


_PROVING = """
import operating.guard.guarding as guarding
from operating.guard.decision import Answer
from operating.guard.probing import Proof
from tests.operating.guard.edges import FakeFilter, guard

guarding.PROVE_BLOCKED_SECONDS = 0.1
packet_filter, proofs = FakeFilter(), {proofs}

def prove():
    return proofs.pop(0) if len(proofs) > 1 else proofs[0]

guard(packet_filter, prove=prove, ask=lambda: Answer.NONE if {silent} else Answer.READY).run()
"""


@pytest.mark.parametrize(
    ("proofs", "silent", "last", "expected"),
    [
        ("[Proof(2)]", True, "guard_around", ["guard_proved", "guard_sidecar_silent", "guard_around"]),
        ("[Proof(0, ('a',))]", False, "guard_not_proved", ["guard_not_proved"]),
        (
            "[Proof(2), Proof(0, (), ('a', 'b')), Proof(0, (), ('a', 'b')), Proof(2)]",
            True,
            "guard_around",
            ["guard_proved", "guard_sidecar_silent", "guard_no_way_around", "guard_around"],
        ),
        (
            "[Proof(1, (), ('a',)), Proof(1, (), ('a',)), Proof(2)]",
            False,
            "guard_proved",
            ["guard_no_way_around", "guard_proved"],
        ),
    ],
    ids=["proved", "nobody answers", "blocked when it is needed, then not", "blocked before it is needed, then not"],
)
def test_around_is_said_of_a_way_that_connections_take(
    proofs: str, last: str, expected: list[str], *, silent: bool
) -> None:
    """And that there is none is told when it begins, once."""
    script = _PROVING.format(proofs=proofs, silent=silent)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            said: list[str] = []
            while last not in "".join(said[-1:]) or len(said) < len(expected) + 1:
                said += [line for line in [guard.stdout.readline()] if line.startswith("{")]
                assert guard.poll() is None
        finally:
            guard.kill()
    assert [json.loads(line)["event"] for line in said] == ["guard_started", *expected]


_FLUSHED = """
import threading
from operating.guard.decision import Answer
from tests.operating.guard.edges import FakeFilter, guard

packet_filter = FakeFilter(standby=["taken", "no"])
threading.Timer(0.5, lambda: setattr(packet_filter, "gone", True)).start()
guard(packet_filter, ask=lambda: Answer.READY).run()
"""
"""Somebody takes the rules away, and the first try to put them back is refused."""


def test_what_somebody_took_away_is_put_back() -> None:
    said = said_by(_FLUSHED, ended_after='guard_accepted"')
    events = [json.loads(line)["event"] for line in said if line.startswith("{")]
    assert events[:2] == ["guard_started", "guard_proved"]
    assert events[2:4] == ["guard_rules_gone", "guard_refused"]
    assert "put STANDBY\n" in said[1:]


_CANNOT_RESET = """
import itertools
from operating.guard.decision import Answer
from tests.operating.guard.edges import FakeFilter, guard

def reset():
    raise OSError(95, "Operation not supported")

guard(FakeFilter(), reset=reset).run()
"""


def test_a_kernel_that_cannot_reset_is_told_of() -> None:
    said = said_by(_CANNOT_RESET, ended_after="guard_around")
    lines = [json.loads(line) for line in said if "guard_cannot_reset" in line]
    assert [line["error"] for line in lines] == ["[Errno 95] Operation not supported"]
    assert "CONFIG_INET_DIAG_DESTROY" in lines[0]["advice"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_whatever_signal_ends_it_its_rules_are_gone(name: str) -> None:
    """A terminal that is closed sends SIGHUP, and traffic would go on without a throttle, and without a guard."""
    status, last = _ended_by(name, then=None, ignores=False)
    assert (status, last) == (0, "put NOTHING")


_ENDED_AT_ITS_START = """
import os, signal
from tests.operating.guard.edges import FakeFilter, guard

class Slow(FakeFilter):
    def put(self, rules):
        super().put(rules)
        if len(self.tried) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

guard(Slow()).run()
"""


def test_a_signal_while_it_puts_its_first_rules_ends_it_without_them() -> None:
    """iptables may take seconds, and a unit that is stopped again is told so at any time."""
    ended = subprocess.run([sys.executable, "-c", _ENDED_AT_ITS_START], capture_output=True, text=True, check=False)
    assert (ended.returncode, [line for line in ended.stdout.splitlines() if line.startswith("put")]) == (
        0, ["put STANDBY", "put NOTHING"]
    )  # fmt: skip


def test_who_asks_for_its_end_is_heard_although_the_signal_was_ignored() -> None:
    """As in a job that a shell began in the background."""
    assert _ended_by("SIGINT", then=None, ignores=True) == (0, "put NOTHING")


def test_what_is_ignored_does_not_end_it() -> None:
    """That is what nohup is for."""
    status, last = _ended_by("SIGHUP", then="SIGTERM", ignores=True)
    assert (status, last) == (0, "put NOTHING")


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
    return guard.returncode, [line for line in f"put AROUND\n{said}".splitlines() if line.startswith("put")][-1]
