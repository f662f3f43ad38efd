"""The bytes are what kafka-python 3.0 makes of the same messages (checked by hand); the tables are held to Kafka's own
by test_conformance."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.own_requests import added_replicas, reassignments_request

ANSWER = bytes.fromhex(
    "0000000700"  # header v1
    "00000000000000"  # no throttle time, no error, no message
    "02027402"  # one topic, t, with one partition
    "0000000304000000010000000200000004020000000401000000"
)  # fmt: skip


def test_every_reassignment_is_asked_for() -> None:
    frame = reassignments_request(7, client_id="c", version=0)
    assert frame.hex() == "002e00000000000700016300000013880000"


def test_added_replicas_are_counted() -> None:
    assert added_replicas(ANSWER, version=0) == {"t": {3: 1}}


@pytest.mark.parametrize("size", range(len(ANSWER)))
def test_half_an_answer_is_none(size: int) -> None:
    with pytest.raises(ProtocolError):
        added_replicas(ANSWER[:size], version=0)


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="listing reassignments: error 41"):
        added_replicas(ANSWER[:9] + bytes.fromhex("0029") + ANSWER[11:], version=0)
