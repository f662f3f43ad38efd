from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from lab.wire.produce import Produced, parse_produce_response, produce_request

if TYPE_CHECKING:
    from lab.wire.records import MessageFormat


@pytest.mark.parametrize(("message_format", "version", "extra"), [("v1", 2, b""), ("v2", 3, b"\xff\xff")])
def test_request_by_hand(message_format: MessageFormat, version: int, extra: bytes) -> None:
    frame = produce_request("ab", {4: b"xyz"}, correlation_id=7, acks=-1, message_format=message_format)
    body = (
        struct.pack(">hhi", 0, version, 7) + b"\0\x08lab-load" + extra
        + struct.pack(">hi", -1, 30_000)
        + b"\0\0\0\x01" + b"\0\x02ab" + b"\0\0\0\x01" + b"\0\0\0\x04" + b"\0\0\0\x03xyz"
    )  # fmt: skip
    assert frame == struct.pack(">i", len(body)) + body


def test_response_of_several_topics() -> None:
    entry = struct.Struct(">ihqq")
    frame = (
        struct.pack(">ii", 9, 2)
        + b"\0\x01a" + struct.pack(">i", 2) + entry.pack(0, 0, 100, -1) + entry.pack(1, 6, -1, -1)
        + b"\0\x02bc" + struct.pack(">i", 1) + entry.pack(5, 0, 7, -1)
        + struct.pack(">i", 0)
    )  # fmt: skip
    assert parse_produce_response(frame) == (
        9,
        [Produced("a", 0, 0, 100), Produced("a", 1, 6, -1), Produced("bc", 5, 0, 7)],
    )
