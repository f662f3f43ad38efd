"""Times as `set` takes them are taken by `plan` and `verify`, too."""

from __future__ import annotations

import click
import pytest

from operating.moves.options import DURATION, SPAN


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2h", 7200), ("1d12h", 129600), ("90m", 5400), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)],
)
def test_times_are_written_as_for_set_or_as_in_the_files(written: str, seconds: float) -> None:
    assert DURATION.convert(written, None, None) == seconds
    assert SPAN.convert(written, None, None) == seconds


@pytest.mark.parametrize("written", ["0s", "0ms", "2", "-2h", "soon", ""])
def test_no_time_and_nothing_are_refused(written: str) -> None:
    with pytest.raises(click.BadParameter, match="found"):
        SPAN.convert(written, None, None)
