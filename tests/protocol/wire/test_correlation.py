"""Which response belongs to which request, as conversations."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.wire.correlation import Correlator, State, expects_response, is_known
from protocol.wire.headers import RequestHead, peek_request

from ..frames import HEADS, Golden


def head(correlation_id: int, api_key: int = 1, version: int = 3) -> RequestHead:
    return RequestHead(api_key, version, correlation_id, "client", 20)


def golden_head(name: str) -> tuple[RequestHead, bytes]:
    frame = next(each.frame for each in HEADS if each.name == name)
    found = peek_request(frame, 0, len(frame))
    assert found is not None
    return found, frame


def test_each_response_gets_back_what_its_request_came_with() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1), payload="one")
    link.sent(head(2), payload="two")
    assert link.in_flight == 2
    assert link.received(1) == "one"
    assert link.received(2) == "two"
    assert link.in_flight == 0


def test_a_request_without_response_is_not_waited_for() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1, api_key=0), expects_response=False, payload="acks=0")
    link.sent(head(2), payload="two")
    assert link.in_flight == 1
    assert link.received(2) == "two"


def test_a_response_overtaking_others_makes_them_forgotten() -> None:
    link: Correlator[str] = Correlator()
    for number in (1, 2, 3):
        link.sent(head(number), payload=str(number))
    assert link.received(3) == "3"
    assert link.in_flight == 0


def test_a_response_to_nothing_changes_nothing() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1), payload="one")
    assert link.received(99) is None
    assert link.received(None) is None
    assert link.received(1) == "one"
    assert link.received(1) is None


def test_a_correlation_id_used_twice_is_answered_in_order() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(7), payload="first")
    link.sent(head(7), payload="second")
    assert [link.received(7), link.received(7)] == ["first", "second"]


def test_memory_is_bounded() -> None:
    link: Correlator[int] = Correlator(maximum=3)
    for number in range(5):
        link.sent(head(number), payload=number)
    assert link.in_flight == 3
    assert link.received(0) is None
    assert link.received(2) == 2


def test_plain_after_sasl_handshake_v0() -> None:
    link: Correlator[str] = Correlator()
    link.sent(golden_head("api-versions-v0")[0], payload="versions")
    assert not link.is_token(None), "a Kafka client does not send frames without a header"
    handshake, _ = golden_head("sasl-handshake-v0")
    link.sent(handshake, payload="handshake")
    assert link.state is State.TOKENS
    token = b"\0user\0password"
    assert link.is_token(peek_request(token, 0, len(token)))
    link.sent_token()
    assert link.received(3000) == "versions"
    assert link.received(3000) == "handshake"
    assert link.received(None) is None
    assert link.in_flight == 0
    link.sent(head(1), payload="fetch")
    assert link.state is State.KAFKA
    assert not link.is_token(None)


def test_scram_after_sasl_handshake_v0() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1, api_key=17, version=0), payload="handshake")
    assert link.received(1) == "handshake"
    for _ in range(2):
        link.sent_token()
        assert link.in_flight == 1
        assert link.received(int.from_bytes(b"r=fy", "big")) is None
    assert link.in_flight == 0
    link.sent(head(2), payload="fetch")
    assert link.received(2) == "fetch"


def test_an_empty_token_answers_a_token() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1, api_key=17, version=0), payload="handshake")
    link.received(1)
    link.sent_token()
    assert link.received(None) is None
    assert link.in_flight == 0


def test_a_last_token_without_answer_is_forgotten() -> None:
    link: Correlator[str] = Correlator()
    link.sent(head(1, api_key=17, version=0), payload="handshake")
    link.received(1)
    link.sent_token()
    link.sent(head(2), payload="fetch")
    assert link.received(2) == "fetch"
    assert link.in_flight == 0


def test_tokens_from_the_first_byte_on() -> None:
    link: Correlator[str] = Correlator()
    assert link.state is State.START
    gssapi = bytes.fromhex("60820234") + bytes(40)
    assert link.is_token(peek_request(gssapi, 0, len(gssapi)))
    link.sent_token()
    assert link.state is State.TOKENS
    assert link.is_token(None)
    assert not link.is_token(head(1))


def test_sasl_handshake_v1_is_followed_by_kafka_frames() -> None:
    link: Correlator[str] = Correlator()
    link.sent(golden_head("sasl-handshake-v1")[0], payload="handshake")
    assert link.state is State.KAFKA


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(b"\0A\0password", id="user A would be DescribeTransactions v112"),
        pytest.param(b"\0Kafka\0secret", id="user Kafka would be DescribeTopicPartitions v24929"),
        pytest.param(b"n,,n=user,r=nonce", id="SCRAM"),
        pytest.param(bytes.fromhex("6082023406092a86"), id="GSSAPI"),
        pytest.param(b"", id="empty"),
    ],
)
def test_tokens_do_not_pass_for_requests(token: bytes) -> None:
    assert not is_known(peek_request(token + bytes(20) if token else token, 0, len(token)))


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.name)
def test_requests_do_not_pass_for_tokens(case: Golden) -> None:
    assert is_known(peek_request(case.frame, 0, len(case.frame)))


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.name)
def test_only_acks_0_is_not_answered(case: Golden) -> None:
    found = peek_request(case.frame, 0, len(case.frame))
    assert found is not None
    assert expects_response(found, case.frame, len(case.frame)) == (case.said.get("acks") != 0)


PRODUCES = [each for each in HEADS if "acks" in each.said]


@pytest.mark.parametrize("case", PRODUCES, ids=lambda case: case.name)
def test_none_until_the_acks_are_there(case: Golden) -> None:
    found = peek_request(case.frame, 0, len(case.frame))
    assert found is not None
    answers = [expects_response(found, case.frame, end) for end in range(found.body_at, len(case.frame) + 1)]
    known = answers.index(case.said["acks"] != 0)
    assert answers[:known] == [None] * known
    assert set(answers[known:]) == {case.said["acks"] != 0}


def test_acks_that_cannot_be_found() -> None:
    found = RequestHead(0, 3, 1, None, 0)
    with pytest.raises(ProtocolError, match="transactional_id"):
        expects_response(found, b"\xff\xfe\0\0", 4)
