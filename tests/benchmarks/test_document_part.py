from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from benchmarks.document_part import DocumentPart

if TYPE_CHECKING:
    from pathlib import Path

PART = DocumentPart("scrapes")
BEGIN, END = "<!-- scrapes: begin -->", "<!-- scrapes: end -->"


def test_only_what_is_between_the_marks_is_written(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    PART.write(document, "new")
    assert document.read_text("utf-8") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}", "<!-- others: begin -->\n<!-- others: end -->"])
def test_a_document_without_the_marks_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(text, "utf-8")
    with pytest.raises(click.ClickException, match=r"benchmarks\.md: expected the marks <!-- scrapes: begin -->"):
        PART.write(document, "new")
    assert document.read_text("utf-8") == text
