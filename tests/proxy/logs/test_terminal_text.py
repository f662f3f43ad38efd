"""What a terminal would obey is shown instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.logs.terminal_text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("größer, 注文 - 100 %", "größer, 注文 - 100 %"),
        ("\x1b]52;c;cm0gLXJmIC8=\x07", "\\x1b]52;c;cm0gLXJmIC8=\\x07"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\rc", "a\\x0ab\\x0dc"),
        ("gpj.exe\u202e", "gpj.exe\\u202e"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \udcff", "lone \\udcff"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_names_read_as_they_are_or_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_message_keeps_its_lines() -> None:
    assert printable("one\n\x1btwo", keep="\n") == "one\n\\x1btwo"


def test_what_is_too_long_says_how_much_is_missing() -> None:
    assert printable("a\x1b" * 10, most=3) == "a\\x1ba… (17 characters more)"


@given(st.text())
def test_nothing_in_it_moves_a_terminal_and_it_can_be_encoded(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode()
