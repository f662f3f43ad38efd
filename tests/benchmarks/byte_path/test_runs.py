from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.byte_path.runs import RunsFile, read
from benchmarks.byte_path.usage import Memory

if TYPE_CHECKING:
    from pathlib import Path


def test_samples_of_memory_come_back(tmp_path: Path) -> None:
    file = RunsFile(tmp_path / "runs.jsonl", "memory")
    file.add_memory("decoded", [(5.0, Memory(2, 1)), (10.0, Memory(3, 2))])
    assert read([tmp_path / "runs.jsonl"]).memory == {"decoded": [(5.0, Memory(2, 1)), (10.0, Memory(3, 2))]}


@pytest.mark.parametrize("line", ["no JSON", "[]", "{}", '{"kind": "pie"}', '{"kind": "run", "suite": "x"}'])
def test_a_row_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"runs\.jsonl:1: expected a row of byte_path, found"):
        read([path])
