"""Who waits for Maven sees that it gets on."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from lab.brokers import fetch_jars
from lab.brokers.jars import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def told(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, files: int) -> str:
    def jars(version: str, *, tell: Callable[[Fetched], None]) -> None:
        assert version == "9.9"
        for number in range(files):
            tell(Fetched(number + 1, 1e6 * (number + 1)))

    monkeypatch.setattr(fetch_jars, "kafka_jars", jars)
    out = io.StringIO()
    fetch_jars.fetch_jars(Console(file=out, force_terminal=terminal, width=80, _environ={}), "9.9")
    return out.getvalue()


def test_elsewhere_than_on_a_terminal_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, terminal=False, files=9) == (
        "fetching the jars of Kafka 9.9 by Maven, this once: 1 files, 1.0 MB\n"
    )


def test_a_terminal_shows_the_last_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "9 files, 9.0 MB" in told(monkeypatch, terminal=True, files=9)


def test_from_the_cache_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, terminal=False, files=0) == ""
