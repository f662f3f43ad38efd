"""Every expectation was compared with java.util.Properties of JDK 17, and 56 000 random files as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.client.java_properties import read_properties
from proxy.errors import InvalidValueError


@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b"", {}),
        (b"# by Ana\n! and Ben\n\n  # indented\na=1\n", {"a": "1"}),
        (b"a = 1\nb:2\nc 3\nd\te\n f=g=h", {"a": "1", "b": "2", "c": "3", "d": "e", "f": "g=h"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a\nb=\n", {"a": "", "b": ""}),
        (b"a=x\\\n    y \\\n  #z\n\\\n  b=c", {"a": "xy #z", "b": "c"}),
        (b"a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        (b"a=ends here\\", {"a": "ends here"}),
        (rb"a\ b\=c=\u00e9\t\q", {"a b=c": "\u00e9\tq"}),
        # As Java has it, this is no UTF-8; a password of its form is that which its users log in with.
        ("a=\u00e9".encode(), {"a": "\u00c3\u00a9"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        # These end no line of Java's.
        (b"a=\x85\x0b\x1cb", {"a": "\x85\x0b\x1cb"}),
        (b"a= x  ", {"a": "x  "}),
        (b"\xef\xbb\xbfa=1", {"a": "1"}),
    ],
)
def test_a_file_means_what_it_means_to_java(content: bytes, properties: dict[str, str]) -> None:
    assert read_properties(content) == properties


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a=1\n\nb=gehe\\u12im", "line 3: expected four hexadecimal digits after \\u"),
        ("a=geheim".encode("utf-16"), "expected plain text, found UTF-16"),
    ],
)
def test_what_java_cannot_load_is_said(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        read_properties(content)
    assert str(error.value).startswith(problem)
    assert "gehe" not in str(error.value)


@given(st.dictionaries(st.text(alphabet=st.characters(max_codepoint=255), min_size=1), st.text(max_size=8), max_size=4))
def test_whatever_is_escaped_is_read(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

    expected = {key: value for key, value in properties.items() if not any(c > "\uffff" for c in value)}
    content = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in expected.items())
    assert read_properties(content.encode("ascii")) == expected
