"""Sessions on the wire: what is listed again is what the follower wrote, in every version that has sessions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from protocol.fetch.request import Asked, FetchRequest, FetchRequestBuilder, entry_bytes, parse_fetch_request
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.session.registry import FetchSessions
from protocol.session.requests import Choice, PartitionKey, SessionRequest, Upstream
from protocol.session.translator import SessionTranslator, Translation
from protocol.work_in_steps import run_through
from tests.protocol.frames import request_frame, request_values

WITH_SESSIONS = [version for version in SUPPORTED_FETCH_VERSIONS if version >= 7]


class Wire:
    """A follower's frames through a translator."""

    def __init__(self) -> None:
        self.translator = SessionTranslator(FetchSessions[Asked](), "leader")

    def passes(self, frame: bytes, chosen: Choice) -> FetchRequest:
        request = parse_fetch_request(frame)
        listed = {
            (entry.topic, entry.partition): Asked(entry.topic, entry_bytes(frame, entry), entry.partition_max_bytes)
            for entry in request.entries
        }
        version = request.head.api_version
        session = SessionRequest(version, listed, request.session_id, request.session_epoch, request.forgotten)
        taken = run_through(self.translator.translate(session, 0.0))
        assert isinstance(taken, Translation)
        upstream = run_through(taken.decide(chosen))
        assert isinstance(upstream, Upstream)
        builder = FetchRequestBuilder(frame, request)
        builder.add_asked(entry._replace(partition_max_bytes=limit) for _, entry, limit in upstream.listed)
        builder.add_forgotten(upstream.forgotten)
        sent = upstream.session_id, upstream.session_epoch
        limits = {"max_wait_ms": request.max_wait_ms, "min_bytes": request.min_bytes}
        self.sent = builder.build(**limits, session=sent)
        taken.answered(0, 77)
        return parse_fetch_request(self.sent)


def written(frame: bytes) -> dict[PartitionKey, bytes]:
    entries = parse_fetch_request(frame).entries
    return {(entry.topic, entry.partition): entry_bytes(frame, entry) for entry in entries}


@pytest.mark.parametrize("version", WITH_SESSIONS)
@settings(max_examples=30)
@given(data=st.data())
def test_what_comes_back_is_what_the_follower_wrote_last(version: int, data: st.DataObject) -> None:
    some = request_values(version)
    opening = data.draw(some) | {"session_id": 0, "session_epoch": 0}
    wanted = list(dict.fromkeys(keys_of(opening)))
    assume(len(wanted) > 1)
    away = set(wanted[:1])
    changed = [dict(topic, partitions=[dict(each, fetch_offset=5) for each in topic["partitions"]])
               for topic in opening["topics"][: data.draw(st.integers(0, 2))]]  # fmt: skip
    nothing: dict[str, Any] = {"session_id": 77, "topics": [], "forgotten_topics_data": []}
    first = request_frame(version, opening)
    second = request_frame(version, data.draw(some) | nothing | {"session_epoch": 1, "topics": changed})
    third = request_frame(version, data.draw(some) | nothing | {"session_epoch": 2})

    wire = Wire()
    wire.passes(first, Choice())
    omitting = wire.passes(second, Choice(away))
    assert away.isdisjoint(written(wire.sent))
    assert (set(omitting.forgotten), omitting.session_id, omitting.session_epoch) == (away, 77, 1)

    wire.passes(third, Choice(restored=away))
    assert written(wire.sent) == {wanted[0]: (written(first) | written(second))[wanted[0]]}


def keys_of(values: dict[str, Any]) -> list[PartitionKey]:
    return [
        (topic.get("topic_id", topic.get("topic")), each["partition"])
        for topic in values["topics"]
        for each in topic["partitions"]
    ]
