"""Questions to a sidecar: each is answered, none holds up who waits, and what keeps the guard from asking is told."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import pytest

from operating.guard.decision import Answer
from operating.guard.questions import Questions, ask_ready
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

ENOUGH_SECONDS = 20.0
NOBODY = "http://127.0.0.1:9"


def test_answers_come_in_order_and_with_their_times() -> None:
    said = deque([Answer.NONE, Answer.ALIVE, Answer.READY])
    questions = Questions(lambda: said.popleft() if said else Answer.NONE)
    questions.start()
    found = [questions.wait(ENOUGH_SECONDS) for _ in range(3)]
    assert [each.answer for each in found if each] == [Answer.NONE, Answer.ALIVE, Answer.READY]
    times = [each.at for each in found if each]
    assert times == sorted(times)


def test_an_answer_that_never_comes_holds_up_nobody() -> None:
    never = threading.Event()
    questions = Questions(lambda: Answer.READY if never.wait() else Answer.NONE)
    questions.start()
    assert questions.wait(0.0) is None
    assert questions.wait(0.01) is None
    never.set()
    assert (questions.wait(ENOUGH_SECONDS) or (None,))[0] is Answer.READY


def test_nobody_there_is_an_answer_and_a_token_that_cannot_be_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_ready(NOBODY) is Answer.NONE
    monkeypatch.setenv("THROTTLE_TOKEN_FILE", str(tmp_path / "missing"))
    questions = Questions(lambda: ask_ready(NOBODY))
    questions.start()
    with pytest.raises(ConfigurationError, match="missing"):
        questions.wait(ENOUGH_SECONDS)


def test_whatever_ends_the_questions_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())
    questions = Questions(lambda: Answer(1 // 0))
    questions.start()
    with pytest.raises(ConfigurationError, match="the error is above"):
        questions.wait(ENOUGH_SECONDS)
    assert told.wait(ENOUGH_SECONDS)
