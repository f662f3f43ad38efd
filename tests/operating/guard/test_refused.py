"""What the metrics tell while iptables refuses a change: what holds, and that it is not what the guard wants."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_GUARD = """
import os, signal
from pathlib import Path
import operating.guard.guarding as guarding
from operating.guard.decision import Answer
from operating.guard.rules import Rules
from tests.operating.guard.edges import FakeFilter, guard

packet_filter = FakeFilter(around={around}, back={back}, nothing={nothing})

def ask():
    return Answer.READY if packet_filter.tried.count(Rules.AROUND) >= {ready_after} else Answer.NONE

real, told = guarding.write_metrics, []

def write(path, *rest, **facts):
    real(path, *rest, **facts)
    lines = [line.split() for line in path.read_text().splitlines() if line[0] != "#"]
    values = {{line[0].split("{{")[0].removeprefix("replication_throttle_guard_"): line[1] for line in lines}}
    pair = values["around"], values["refused"]
    if told[-1:] != [pair]:
        told.append(pair)
        print("told", *pair, flush=True)
    if len(told) == {enough}:
        os.kill(os.getpid(), signal.SIGTERM)

guarding.write_metrics = write
signal.alarm(20)  # where less is told than the test waits for
guard(packet_filter, ask=ask, textfile=Path({file!r})).run()
"""
"""The sidecar is silent, and ready once the way around was tried `ready_after` times. Each change is refused as its
own list says first. What the metrics say is printed whenever that changes."""

_NEVER = 1000
_NO = "no"
_PARTLY = "partly"
_WHILE_SILENT = (_NO,) * 99
"""Refusals until the ready sidecar's answer comes: on a busy machine the guard tries again before."""


class Scene(NamedTuple):
    around: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ()
    ready_after: int = _NEVER


def told(scene: Scene, file: Path, *, enough: int) -> tuple[list[str], int]:
    """Return what the metrics `around` and `refused` were, until they had changed `enough` times; and the exit
    status."""
    lists = {name: list(getattr(scene, name)) for name in ("around", "back", "nothing")}
    script = _GUARD.format(**lists, ready_after=scene.ready_after, enough=enough, file=str(file))
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    return [line[5:] for line in ran.stdout.splitlines() if line.startswith("told ")], ran.returncode


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(Scene(around=(_NO, _NO)), ["0 0", "0 1", "1 0"], id="around: it stays cut"),
        pytest.param(
            Scene(back=(_NO, _NO), ready_after=1), ["0 0", "1 0", "1 1", "0 0"], id="back: it stays unthrottled"
        ),
        pytest.param(Scene(around=(_PARTLY, _NO)), ["0 0", "1 1", "1 0"], id="around: a part of it is unthrottled"),
        pytest.param(
            Scene(around=(_PARTLY, *_WHILE_SILENT), back=(_NO,), ready_after=1),
            ["0 0", "1 1", "0 0"],
            id="neither: a part stays unthrottled",
        ),
        pytest.param(
            Scene(around=_WHILE_SILENT, back=(_NO,), ready_after=1),
            ["0 0", "0 1", "0 0"],
            id="neither: all through",
        ),
    ],
)
def test_the_metrics_tell_what_holds_and_that_it_is_not_wanted(
    scene: Scene, expected: list[str], tmp_path: Path
) -> None:
    assert told(scene, tmp_path / "guard.prom", enough=len(expected)) == (expected, 0)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_taken_away_at_the_end_is_told_on(tmp_path: Path) -> None:
    """The guard is gone, its rules are not: what it wrote last is all that tells of them."""
    file = tmp_path / "guard.prom"
    said, status = told(Scene(nothing=(_NO,)), file, enough=2)
    assert (said, status) == (["0 0", "1 0", "1 1"], 1)
    assert 'guard_around{broker="101"} 1\n' in file.read_text()
    assert 'guard_refused{broker="101"} 1\n' in file.read_text()
