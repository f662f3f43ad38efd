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
from protocol.wire.layout import TAGS
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


partitions = st.lists(
    st.tuples(
        st.sampled_from((0, 3, 7, 29)),
        st.sampled_from((None, "", "why", "w" * 200)),
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from((None, "", "bad"))), max_size=2),
    ),
    max_size=4,
)


@given(st.sampled_from(SUPPORTED_PRODUCE_VERSIONS), st.lists(partitions, max_size=3))
def test_an_answer_of_any_shape_says_what_it_was_built_of(version: int, topics: list[list[Any]]) -> None:
    """Nearly all answers have neither messages nor errors of records, and are read at a stroke."""
    rest = {"base_offset": 1, "log_append_time_ms": -1, "log_start_offset": 0, TAGS: []}
    built = [
        {
            "name": f"topic-{number}", "topic_id": bytes([number] * 16), TAGS: [],
            "partition_responses": [
                {
                    **rest, "index": index, "error_code": code, "error_message": message,
                    "record_errors": [
                        {"batch_index": at, "batch_index_error_message": text, TAGS: []} for at, text in errors
                    ],
                }
                for index, (code, message, errors) in enumerate(partitions)
            ],
        }
        for number, partitions in enumerate(topics)
    ]  # fmt: skip
    body = response_layout(version).build({"responses": built, "throttle_time_ms": THROTTLED_MS, TAGS: []})
    found = peek_produce_answer(version, body, 0, len(body))
    codes = [code for partitions in topics for code, _, _ in partitions]
    assert found.is_refused is (bool(codes) and not {0, 7} & {*codes})
    if version:
        assert found.throttle_time_at is not None
        assert body[found.throttle_time_at :][:4] == THROTTLED_MS.to_bytes(4)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="Produce v14 is not supported"):
        peek_produce_answer(14, bytes(100), 0, 100)
    with pytest.raises(ProtocolError, match="Produce v14"):
        response_layout(14)
