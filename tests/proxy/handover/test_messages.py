"""A process of version 0.1.0 and one of this version understand each other, whichever takes over from the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.handover.messages import SCHEMA, ConnectionState, Hello, Message

RECORDED = {
    name: bytes.fromhex(message)
    for name, message in json.loads(Path(__file__).with_name("messages_0_1_0.json").read_text("utf-8")).items()
}
"""Messages as version 0.1.0 encoded them, one of each kind at least."""
EXACT = ("replicas", "client_debts")
"""Lists whose members are tuples: a process refuses a longer one, where of objects it skips what it does not know."""


def decode(message: bytes) -> Any:
    return msgspec.msgpack.decode(message, type=Message)


def is_readable(recorded: Any, found: Any, *, exact: bool = False) -> bool:
    """Tell whether who reads `recorded` reads the same from `found`, which may have more fields."""
    if isinstance(recorded, dict):
        return all(
            key in found and is_readable(value, found[key], exact=key in EXACT) for key, value in recorded.items()
        )
    if isinstance(recorded, list):
        if exact:
            return bool(recorded == found)
        return len(found) >= len(recorded) and all(map(is_readable, recorded, found))
    return bool(recorded == found)


@pytest.mark.parametrize("message", RECORDED.values(), ids=RECORDED)
def test_what_0_1_0_sends_is_read_and_what_is_sent_0_1_0_reads(message: bytes) -> None:
    encoded = msgspec.msgpack.encode(decode(message))
    assert is_readable(msgspec.msgpack.decode(message), msgspec.msgpack.decode(encoded))


def test_both_have_the_same_schema() -> None:
    assert decode(RECORDED["hello"]) == Hello(SCHEMA, 101)


def test_a_connection_of_0_1_0_is_read_whole() -> None:
    state = decode(RECORDED["connection"])
    assert isinstance(state, ConnectionState)
    assert (state.request_bytes, state.frames, state.source) == (b"\0\0\0\x10half", 41, None)
    assert [(each.topic, each.fetch_offset, each.standing) for each in state.link.replicas] == [
        ("orders", 1000, "behind"),
        (bytes(range(16)), 0, "new"),
    ]
    assert state.link.session is not None
    assert (state.link.session.session_id, state.link.session.leader_epoch) == (77, 9)
    assert state.clients is not None
    assert (state.clients.user, state.clients.catch_up_session) == ("alice", True)
    assert decode(RECORDED["opaque connection with TLS"]).source == "10.0.0.7"
