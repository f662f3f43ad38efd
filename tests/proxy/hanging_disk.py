"""A disk that does not answer, for tests of a start."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.files import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest


@contextmanager
def hanging_disk(
    monkeypatch: pytest.MonkeyPatch, hangs: Callable[[Path], bool] = lambda _: True, *, most_seconds: float = 0.05
) -> Iterator[None]:
    """While the block lasts nothing is opened that `hangs`; a start waits for `most_seconds`."""
    over, open_file = threading.Event(), os.open

    def hang(name: Path | str, *arguments: int) -> int:
        if hangs(Path(name)):
            over.wait(20.0)
        return open_file(name, *arguments)

    monkeypatch.setattr(reading, "MAX_SECONDS", most_seconds)
    monkeypatch.setattr(os, "open", hang)
    try:
        yield
    finally:
        over.set()
