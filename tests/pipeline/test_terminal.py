"""What the jobs print of names from the wire is what the sidecar's own commands print of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.terminal import cell, listed, printable
from proxy.logs.terminal_text import printable as of_the_sidecar


@given(st.text())
def test_a_name_reads_as_in_the_sidecars_own_tables(text: str) -> None:
    assert cell(text) == of_the_sidecar(text)


def test_a_message_keeps_its_lines_and_nothing_else() -> None:
    assert printable("one\n\ttwo\x1b[2J\r") == "one\n\ttwo\\x1b[2J\\x0d"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.5, "0.500"), (123456.7, "123457"), (12, "12"), ("a\nb", "a\\x0ab")]
)
def test_a_cell_is_one_line(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_a_list_of_names_has_an_end() -> None:
    assert [listed(range(101, 101 + count), 3) for count in (1, 3, 4, 1503)] == [
        "101", "101, 102, 103", "101, 102, 103 and 1 more", "101, 102, 103 and 1,500 more"
    ]  # fmt: skip
