from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from lab.moves.move import Progress
from lab.reporting import ProgressLine, moves_table

from .moves.test_move import move, result

if TYPE_CHECKING:
    import pytest


def test_moves_stand_side_by_side() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(moves_table([result(move()), result(move(how="unthrottled"), same=False)]))
    text = capture.get()
    assert "0.75" in text
    assert "yes" in text
    assert "NO" in text
    assert max(map(len, text.splitlines())) <= 80


def test_off_a_terminal_each_phase_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as progress:
        progress.title = "1/1"
        for _ in range(3):
            progress.tell(Progress("moving", 1.0, 10, 100))
        progress.phase("comparing")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["1/1: moving", "1/1: comparing"]
