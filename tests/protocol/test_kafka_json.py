"""Both engines print what Kafka's own converters print, refuse the same bytes, and raise nothing else."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.kafka_json import request_json

from .frames import (
    FETCHES,
    HEADS,
    Golden,
    header_bytes,
    named,
    request_frame,
    request_frames,
    response_frame,
    response_frames,
)
from .walked_json import Engine, request_by, response_by

ENGINES: tuple[Engine, ...] = ("construct", "walker")
each_engine = pytest.mark.parametrize("engine", ENGINES)
each_fetch = pytest.mark.parametrize("case", FETCHES, ids=lambda case: case.name)


def said_by(engine: Engine, case: Golden, frame: bytes) -> dict[str, Any]:
    if case.kind == "request":
        return request_by(engine, frame)
    return response_by(engine, frame, case.version)


@each_engine
@each_fetch
def test_is_what_kafka_prints(case: Golden, engine: Engine) -> None:
    # As text, so that the order of the fields is compared too.
    assert json.dumps(said_by(engine, case, case.frame)) == json.dumps(case.said)


@each_engine
@each_fetch
def test_trailing_and_missing_bytes_are_errors(case: Golden, engine: Engine) -> None:
    with pytest.raises(ProtocolError):
        said_by(engine, case, case.frame + b"\0")
    for size in {0, 1, 3, 7, len(case.frame) // 2, len(case.frame) - 1}:
        with pytest.raises(ProtocolError):
            said_by(engine, case, case.frame[:size])


def outcome(engine: Engine, case: Golden, frame: bytes) -> dict[str, Any] | type[ProtocolError]:
    try:
        return said_by(engine, case, frame)
    except ProtocolError:
        return ProtocolError


edits = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete"]), st.integers(0, 10_000), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def edited(frame: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    data = bytearray(frame)
    for change, place, byte in changes:
        at = place % (len(data) + 1)
        if change == "insert":
            data.insert(at, byte)
        elif change == "delete":
            del data[at : at + byte % 8]
        else:
            data[at : at + 1] = bytes([byte])
    return bytes(data)


@settings(max_examples=1500)
@given(st.sampled_from(FETCHES), edits)
def test_damaged_frames_give_a_value_or_an_error_the_same_from_both(
    case: Golden, changes: list[tuple[str, int, int]]
) -> None:
    frame = edited(case.frame, changes)
    assert outcome("construct", case, frame) == outcome("walker", case, frame)


@given(st.binary(max_size=60), st.sampled_from(FETCHES))
def test_garbage_is_the_same_to_both(data: bytes, case: Golden) -> None:
    assert outcome("construct", case, data) == outcome("walker", case, data)


LENGTHS = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x7f\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff",
    b"\x80\x80\x02",
]
EACH_LAYOUT = (0, 1, 4, 5, 7, 11, 12, 13, 15, 18)
OF_EACH_LAYOUT = [
    each
    for each in FETCHES
    if each.version in EACH_LAYOUT and each.name.endswith(("-two", "-aborted", "-tags", "-session", "-empty-topic"))
]


@pytest.mark.parametrize("case", OF_EACH_LAYOUT, ids=lambda case: case.name)
def test_hostile_lengths_anywhere(case: Golden) -> None:
    """Every place is made to say one of them; if a count were believed, this would take hours."""
    for at, length in zip(range(case.body_at, len(case.frame) - 3), itertools.cycle(LENGTHS), strict=False):
        frame = case.frame[:at] + length + case.frame[at + len(length) :]
        assert outcome("construct", case, frame) == outcome("walker", case, frame)


@given(request_frames)
def test_made_up_requests(made_up: tuple[int, dict[str, Any]]) -> None:
    frame = request_frame(*made_up)
    assert request_by("walker", frame) == request_by("construct", frame)


@given(response_frames)
def test_made_up_responses(made_up: tuple[int, dict[str, Any]]) -> None:
    frame = response_frame(*made_up)
    assert response_by("walker", frame, made_up[0]) == response_by("construct", frame, made_up[0])


def test_other_requests_are_named_in_the_error() -> None:
    frame = next(each.frame for each in HEADS if each.name == "controlled-shutdown-v0")
    with pytest.raises(ProtocolError, match="ControlledShutdown"):
        request_json(frame)


@each_engine
def test_other_versions_are_refused(engine: Engine) -> None:
    with pytest.raises(ProtocolError, match="v19 is not supported"):
        request_by(engine, header_bytes(19))
    for version in (-1, 19):
        with pytest.raises(ProtocolError, match=f"v{version} is not supported"):
            response_by(engine, named("fetch-response-v6-one").frame, version)
