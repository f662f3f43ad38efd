"""Names are decoded once, and never more are remembered than is good."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.wire.topics import MAX_REMEMBERED, DecodedNames


def test_a_name_is_one_object() -> None:
    names = DecodedNames()
    first = names["ü".encode()]
    assert first == "ü"
    assert names["ü".encode()] is first


def test_what_is_not_a_name_is_not_remembered() -> None:
    names = DecodedNames()
    with pytest.raises(ProtocolError, match="not UTF-8"):
        names[b"\xff"]
    assert names == {}


def test_memory_is_bounded() -> None:
    names = DecodedNames()
    for number in range(MAX_REMEMBERED + 1):
        assert names[b"%d" % number] == str(number)
    assert len(names) == 1
