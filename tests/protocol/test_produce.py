"""Where the throttle time of a Produce response stands, held to Kafka's own serializer, and whether it refuses."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.produce import SUPPORTED_PRODUCE_VERSIONS, peek_produce_answer, response_layout
from protocol.wire.apis import API_PRODUCE
from protocol.wire.headers import response_header_version
from tests.proxy.clients.frames import produce_response

from .frames import golden_lines

LINES = list(golden_lines("produce.jsonl"))
THROTTLED_MS = 0x01020304


def body_at(version: int) -> int:
    return 4 + response_header_version(API_PRODUCE, version)


def test_there_are_frames_of_every_version() -> None:
    assert {line["apiVersion"] for line in LINES} == set(SUPPORTED_PRODUCE_VERSIONS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["name"])
def test_a_patched_frame_is_what_kafka_writes_with_that_throttle_time(line: dict[str, Any]) -> None:
    version, frame = line["apiVersion"], bytearray(base64.b64decode(line["frame"]))
    at = peek_produce_answer(version, frame, body_at(version), len(frame)).throttle_time_at
    assert (at is None) == (version == 0)
    if at is not None:
        frame[at : at + 4] = THROTTLED_MS.to_bytes(4)
    assert bytes(frame) == base64.b64decode(line["throttled"])


@given(st.sampled_from(LINES), st.data())
def test_a_damaged_body_is_refused_or_its_place_lies_inside(line: dict[str, Any], data: st.DataObject) -> None:
    version, frame = line["apiVersion"], bytearray(base64.b64decode(line["frame"]))
    at = data.draw(st.integers(body_at(version), len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(body_at(version), len(frame)))
    try:
        found = peek_produce_answer(version, frame, body_at(version), end).throttle_time_at
    except ProtocolError:
        return
    assert found is None or body_at(version) <= found <= end - 4


@pytest.mark.parametrize("version", SUPPORTED_PRODUCE_VERSIONS)
@pytest.mark.parametrize(("codes", "is_refused"), [((29,), True), ((3, 29), True), ((29, 0), False), ((7,), False)])
def test_what_a_broker_appended_nothing_of_is_refused(
    version: int, codes: tuple[int, ...], *, is_refused: bool
) -> None:
    frame = produce_response(version=version, error_codes=codes)
    assert peek_produce_answer(version, frame, body_at(version), len(frame)).is_refused is is_refused


def test_a_later_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="Produce v14 is not supported"):
        peek_produce_answer(14, bytes(100), 0, 100)
    with pytest.raises(ProtocolError, match="Produce v14"):
        response_layout(14)
