"""README's pictures are those of what was recorded, by `python -m benchmarks.pictures draw`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.pictures.__main__ import PLOTS, RECORDING
from benchmarks.pictures.drawing import PICTURES
from benchmarks.pictures.recording import BIN_SECONDS, HOWS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
RECORDED = json.loads(RECORDING.read_text("utf-8"))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_was_recorded(name: str) -> None:
    drawn = PICTURES[name](RECORDED)
    assert (PLOTS / name).read_text("utf-8") == drawn
    assert f"(docs/plots/{name})" in README
    ET.fromstring(drawn)
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", drawn) == []


def test_both_moves_are_of_the_same_bytes() -> None:
    """But for batches that a broker's response cuts, which come twice."""
    first, second = (sum(RECORDED["bytes"][how]) for how in HOWS)
    assert first == pytest.approx(second, rel=0.05)
    assert RECORDED["bin_seconds"] == BIN_SECONDS
