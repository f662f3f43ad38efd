"""docs/pipeline.md: every metric that `stream` writes is there, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.questions.present_state import FILES_METRIC, METRICS, PREFIX

TEXT = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text("utf-8")


def test_every_metric_of_the_textfile_is_there_and_no_other() -> None:
    written = {f"{PREFIX}{name}" for name in (*(name for name, *_ in METRICS), FILES_METRIC)}
    assert set(re.findall(rf"\b{PREFIX}\w+", TEXT)) == written
