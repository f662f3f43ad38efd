from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.measuring.high_watermarks import NAME, high_watermarks

if TYPE_CHECKING:
    from pathlib import Path


def test_each_replica_has_its_own(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("0\n3\norders 0 32\norders 11 0\npay.ments-2 1 4294967296\n", encoding="utf-8")
    assert high_watermarks(tmp_path) == {("orders", 0): 32, ("orders", 11): 0, ("pay.ments-2", 1): 1 << 32}


def test_a_broker_that_has_written_none_yet(tmp_path: Path) -> None:
    assert high_watermarks(tmp_path) == {}
    (tmp_path / NAME).touch()  # as a broker does when it starts
    assert high_watermarks(tmp_path) == {}


def test_a_broker_without_replicas(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("0\n0\n", encoding="utf-8")
    assert high_watermarks(tmp_path) == {}


@pytest.mark.parametrize("text", ["1", "1\n0\n"])
def test_another_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=f"{NAME}: version"):
        high_watermarks(tmp_path)
