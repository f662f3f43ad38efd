"""Nothing that a peer does is written to standard error, which may be a pipe that nobody reads."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import TYPE_CHECKING

from proxy.process.supervision import log_unraisable

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    import pytest


class Fails:
    def __del__(self) -> None:
        raise ValueError("not now")


def test_an_error_that_nobody_can_be_told_of_is_in_the_log_alone(capfd: pytest.CaptureFixture[str]) -> None:
    log, before = RecordedLog(), sys.unraisablehook
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # what an earlier test left open is none of this one's
    with log_unraisable(log):
        Fails()
        gc.collect()
    assert sys.unraisablehook is before
    assert [(line["event"], line["error"]) for line in log.lines] == [("unraisable_error", "ValueError: not now")]
    assert capfd.readouterr().err == ""
