"""Tables and lines as a terminal gets them: the sidecar's own styles, and nobody else's."""

from __future__ import annotations

import io
import json

import pytest
from rich.text import Text

from operating.terminal import PLAIN_WIDTH, Console, say, say_json


def test_styles_of_ours_reach_a_terminal_and_codes_in_names_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console()
    console.file = io.StringIO()
    console.print(Text("red \x1b[2J", style="red"))
    written = console.file.getvalue()
    assert "\\x1b[2J" in written
    assert written.startswith("\x1b[31m")


def test_it_is_wide_into_a_pipe() -> None:
    assert Console().width == PLAIN_WIDTH


@pytest.mark.parametrize("text", ["\x07bell", "\ud83d alone", "\U000e0041tag", "\x9b2J"])
def test_json_says_the_same_with_escapes(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_json(json.dumps({"topic": text}, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    printed = capsys.readouterr().out.rstrip("\n")
    assert printed.isprintable()
    if text.isascii() or "\ud83d" not in text:
        assert json.loads(printed) == {"topic": text}


def test_a_message_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\n\ttwo\x1b")
    assert capsys.readouterr().out == "one\n\ttwo\\x1b\n"
