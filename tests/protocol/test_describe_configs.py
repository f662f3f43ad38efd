"""The bytes are what kafka-python 3.0 makes of the same messages (checked by hand); the tables are held to Kafka's own
by test_conformance."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.own_requests import broker_configs_request, dynamic_configs

RATE = b"leader.replication.throttled.rate"
ANSWER = (
    bytes.fromhex("0000000700000000000000010000ffff04000331303100000003")  # one broker, 101, of three configs
    + bytes.fromhex("0021") + RATE + bytes.fromhex("00073130343835373600020000000000")
    + bytes.fromhex("00016100013700040000000000")  # in server.properties
    + bytes.fromhex("000178ffff00020000000000")  # without a value
)  # fmt: skip


def test_a_broker_is_asked_for_its_own() -> None:
    frame = broker_configs_request(7, 101, ["a", "b"], client_id="c", version=1)
    assert frame.hex() == "0020000100000007000163" + "00000001040003313031000000020001610001" + "6200"


def test_what_was_set_while_it_ran_is_found() -> None:
    assert dynamic_configs(ANSWER, version=1) == {RATE.decode(): "1048576"}


@pytest.mark.parametrize("size", range(len(ANSWER)))
def test_half_an_answer_is_none(size: int) -> None:
    with pytest.raises(ProtocolError):
        dynamic_configs(ANSWER[:size], version=1)


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="describing configs: error 31"):
        dynamic_configs(ANSWER[:12] + bytes.fromhex("001fffff04000331303100000000"), version=1)
