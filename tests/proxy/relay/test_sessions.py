"""Fetch v7 to v18 on the wire: replays where topics end, incremental answers untouched, local answers.

Every version's answers are read back with the same tables that Kafka's own serializer is held to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from lab.embedded.session_values import Ask
from protocol.fetch.request import FetchRequest, parse_fetch_request
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, response_layout
from protocol.session.requests import SessionRequest
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import with_length
from protocol.wire.headers import response_header, response_header_version
from protocol.wire.layout import TAGS, bare, member, parse_whole
from proxy.quotas import Quotas, RoleQuota
from tests.proxy.conversation import MIB, quotas, throttle
from tests.proxy.session_conversation import session_frame, topic_of

from .wire import CORRELATION_ID, batch, entry, patient_clock, read_frame, relayed, reserved_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .wire import Wire

pytestmark = pytest.mark.usefixtures("no_lingering")

HIGH = 1_000_000
SESSION = 77
GRANTED = 0
"""Of three that are behind the first: first contact takes no turn."""
VERSIONS = [7, 11, 12, 13, 17, 18]
NOTHING = Quotas(leader=RoleQuota(4 * MIB), follower=RoleQuota(4 * MIB))
METADATA = with_length(bytes.fromhex("0003 0001 0000007b ffff") + b"metadata")
UNKNOWN_TAGS = [(99, b"hi"), (300, b"x" * 9)]
each_version = pytest.mark.parametrize("version", VERSIONS)


def frame_of(
    version: int, offsets: dict[int, int], *, session: tuple[int, int] = (0, 0), max_wait_ms: int = 500
) -> bytes:
    """A follower's request for these partitions of "t"."""
    listed = {(topic_of(version), partition): Ask(offset) for partition, offset in offsets.items()}
    return session_frame(version, SessionRequest(version, listed, *session), max_wait_ms=max_wait_ms)


def answer(
    version: int, entries: Sequence[dict[str, Any]], *, session_id: int = SESSION, error: int = 0, tags: bool = False
) -> bytes:
    """A leader's answer, as Construct builds it; with `tags` every struct that may have any does."""
    layout = response_layout(version)
    inner = UNKNOWN_TAGS if tags else []
    end: list[tuple[int, bytes]] = list(inner)
    if tags and version >= 16:
        endpoints = [{"node_id": 101, "host": "h", "port": 9092, "rack": None, TAGS: inner}]
        end = bare(member(layout, TAGS)).encoded({"node_endpoints": endpoints}) + inner
    topic = topic_of(version)
    partitions = [
        {"preferred_read_replica": -1, TAGS: inner} | each | {"aborted_transactions": _aborted(each, inner)}
        for each in entries
    ]
    blocks = [{"topic": topic, "topic_id": topic, "partitions": partitions, TAGS: inner}] if partitions else []
    body = {"throttle_time_ms": 0, "error_code": error, "session_id": session_id, "responses": blocks, TAGS: end}
    header = response_header(response_header_version(API_FETCH, version))
    return bytes(header.build({"correlation_id": CORRELATION_ID, TAGS: []}) + layout.build(body))


def _aborted(each: dict[str, Any], tags: list[tuple[int, bytes]]) -> list[dict[str, Any]] | None:
    aborted = each["aborted_transactions"]
    return None if aborted is None else [transaction | {TAGS: tags} for transaction in aborted]


def body_of(version: int, frame: bytes) -> Any:
    """To the last byte, or ProtocolError."""
    assert frame[:4] == CORRELATION_ID.to_bytes(4)
    return parse_whole(response_layout(version), frame[4 + response_header_version(API_FETCH, version) :])


def told(version: int, frame: bytes) -> list[tuple[int, int, int, int]]:
    """(partition, error, high watermark, record bytes) of each entry."""
    found = []
    for block in body_of(version, frame).responses:
        assert (block.topic_id if version >= 13 else block.topic) == topic_of(version)
        found += [(p.partition_index, p.error_code, p.high_watermark, p.records.size_bytes) for p in block.partitions]
    return found


def listed(request: FetchRequest) -> list[int]:
    return [each.partition for each in request.entries]


async def asks(wire: Wire, frame: bytes) -> FetchRequest:
    """The follower's request, as the leader gets it."""
    await wire.follower.send_all(with_length(frame))
    return parse_fetch_request(await wire.asked())


async def hears(wire: Wire, frame: bytes, pieces: int = 0) -> bytes:
    """The leader's answer, as the follower gets it. `pieces`: sent in so many bytes at a time."""
    data = with_length(frame)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send, wire.leader, data, pieces or len(data))
        return await read_frame(wire.follower)


async def _send(stream: trio.SocketStream, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        await stream.send_all(data[at : at + size])
        await trio.testing.wait_all_tasks_blocked()


async def meet(wire: Wire, version: int, partitions: Iterable[int] = range(3), *, session_id: int = SESSION) -> None:
    """First contact; with a `session_id` a session is opened."""
    offsets = dict.fromkeys(partitions, 0)
    await asks(wire, frame_of(version, offsets))
    frame = answer(version, [entry(p) for p in offsets], session_id=session_id)
    assert await hears(wire, frame) == frame


# A full request of which something is omitted.


async def replayed(version: int, frame: bytes, pieces: int) -> bytes:
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, version, session_id=0)
        request = await asks(wire, frame_of(version, {0: 0, 1: 0, 2: 0}))
        assert listed(request) == [GRANTED]
        received = await hears(wire, frame, pieces)
        await trio.testing.wait_all_tasks_blocked()
        assert reserved_bytes(of) == 0
        assert of.statistics.omitted_partitions == 2
    return received


def full_answer(version: int, size: int) -> bytes:
    entries = [entry(GRANTED, batch(size), high_watermark=HIGH + 1, aborted=[(1, 2), (3, 4)])]
    return answer(version, entries, session_id=SESSION, tags=version >= 12)


def is_complete(version: int, received: bytes, frame: bytes, size: int) -> None:
    """Everything that the leader said, in its own bytes, and the omitted ones where the topics end."""
    assert told(version, received) == [(GRANTED, 0, HIGH + 1, size), (1, 0, HIGH, 0), (2, 0, HIGH, 0)]
    count_at = 4 + response_header_version(API_FETCH, version) + 4 + 2 + 4
    after = count_at + (1 if version >= 12 else 4)
    assert received[:count_at] == frame[:count_at]
    got, had = body_of(version, received), body_of(version, frame)
    tail = 0
    if version >= 12:
        assert got[TAGS] == had[TAGS]
        assert got.responses[0][TAGS] == UNKNOWN_TAGS
        tail = len(bare(member(response_layout(version), TAGS)).build(had[TAGS]))
    topics = len(frame) - tail
    assert received[after:topics] == frame[after:topics]
    assert received[len(received) - tail :] == frame[topics:]


@each_version
@pytest.mark.parametrize("size", [20, 100_000, MIB])
async def test_what_was_omitted_is_added_where_the_topics_end(
    version: int, size: int, clock: trio.testing.MockClock
) -> None:
    frame = full_answer(version, size)
    is_complete(version, await replayed(version, frame, 0), frame, size)


@each_version
def test_in_pieces_of_any_size(version: int) -> None:
    frame = full_answer(version, 20)
    for pieces in range(1, 41):
        is_complete(version, trio.run(replayed, version, frame, pieces, clock=patient_clock()), frame, 20)


@each_version
async def test_a_whole_answer_is_what_construct_would_have_built(version: int, clock: trio.testing.MockClock) -> None:
    """The replayed entries, too, hold what such an entry of this version holds."""
    received = await replayed(version, full_answer(version, 20), 0)
    for found in body_of(version, received).responses[-1].partitions:
        assert (found.last_stable_offset, found.log_start_offset, found.aborted_transactions) == (-1, 3, None)
        assert found.get("preferred_read_replica", -1) == -1
        assert found.get(TAGS, []) == []


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("blocks", [126, 127, 128])
@pytest.mark.parametrize("pieces", [0, 3])
async def test_a_count_of_topics_that_grows_by_a_byte(
    version: int, blocks: int, pieces: int, clock: trio.testing.MockClock
) -> None:
    """Counts above 126 take two bytes in flexible versions."""
    names = [f"t{n:03}" for n in range(blocks + 1)]
    offsets = {(topic_of(version, name), 0): Ask(0) for name in names}

    def of_topics(chosen: Sequence[str], records: bytes) -> bytes:
        topics = [
            {"topic": topic_of(version, n), "topic_id": topic_of(version, n), TAGS: [],
             "partitions": [entry(0, records) | {"preferred_read_replica": -1, TAGS: []}]}
            for n in chosen
        ]  # fmt: skip
        body = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": topics, TAGS: []}
        header = response_header(1).build({"correlation_id": CORRELATION_ID, TAGS: []})
        return bytes(header + response_layout(version).build(body))

    async with relayed(throttle()) as wire:
        frame = session_frame(version, SessionRequest(version, offsets, 0, 0))
        await asks(wire, frame)
        await hears(wire, of_topics(names, b""))
        request = await asks(wire, frame)
        asked = [names[[topic_of(version, n) for n in names].index(each.topic)] for each in request.entries]
        assert 0 < len(asked) < len(names)
        received = await hears(wire, of_topics(asked, batch(50)), pieces)
        found = body_of(version, received).responses
        assert sorted(block.topic_id if version >= 13 else block.topic for block in found) == sorted(
            topic for topic, _ in offsets
        )


# Within a session.


@each_version
@pytest.mark.parametrize("pieces", [0, 1, 5, 17])
async def test_an_incremental_answer_passes_as_it_is(version: int, pieces: int, clock: trio.testing.MockClock) -> None:
    async with relayed(throttle()) as wire:
        await meet(wire, version)
        request = await asks(wire, frame_of(version, {}, session=(SESSION, 1)))
        assert (request.session_id, request.session_epoch) == (SESSION, 1)
        assert [partition for _, partition in request.forgotten] == [1, 2]
        assert listed(request) == [GRANTED]  # with what it is granted
        frame = full_answer(version, 50)
        assert await hears(wire, frame, pieces) == frame
        await trio.testing.wait_all_tasks_blocked()
        assert wire.throttle.statistics.throttled_bytes_catching_up > 50
        request = await asks(wire, frame_of(version, {GRANTED: 50}, session=(SESSION, 2)))
        assert (request.session_id, request.session_epoch) == (SESSION, 2)
        empty = answer(version, [])
        assert await hears(wire, empty, pieces) == empty


@each_version
async def test_epochs_differ_after_an_answer_of_our_own_and_that_one_is_kafkas(
    version: int, clock: trio.testing.MockClock
) -> None:
    async with relayed(throttle(0)) as wire:
        await meet(wire, version)
        await wire.follower.send_all(with_length(frame_of(version, {}, session=(SESSION, 1))))
        body = body_of(version, await read_frame(wire.follower))
        assert trio.current_time() == pytest.approx(0.5)
        assert (body.error_code, body.session_id, len(body.responses), body.throttle_time_ms) == (0, SESSION, 0, 0)
        wire.throttle.apply(quotas(400 * MIB), trio.current_time())
        trio.lowlevel.current_clock().jump(1)
        request = await asks(wire, frame_of(version, {}, session=(SESSION, 2)))
        assert (request.session_id, request.session_epoch) == (SESSION, 1)
        frame = answer(version, [])
        assert await hears(wire, frame) == frame


@each_version
async def test_a_full_answer_of_our_own_is_kafkas(version: int, clock: trio.testing.MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await meet(wire, version, session_id=0)
        await wire.follower.send_all(with_length(frame_of(version, {0: 0, 1: 0, 2: 0})))
        frame = await read_frame(wire.follower)
        assert told(version, frame) == [(p, 0, HIGH, 0) for p in range(3)]
        assert body_of(version, frame).session_id == 0


@each_version
async def test_an_unknown_session_is_answered_here_and_the_connection_goes_on(
    version: int, clock: trio.testing.MockClock
) -> None:
    async with relayed(throttle()) as wire:
        await wire.follower.send_all(with_length(frame_of(version, {}, session=(SESSION, 9))))
        body = body_of(version, await read_frame(wire.follower))
        assert (body.error_code, body.session_id, len(body.responses)) == (70, 0, 0)
        request = await asks(wire, frame_of(version, {0: 0}))
        assert (request.session_id, request.session_epoch) == (SESSION, 0)  # closed at the leader with that
        frame = answer(version, [entry(0)], session_id=5)
        assert await hears(wire, frame) == frame


@each_version
@pytest.mark.parametrize("before", [b"", METADATA], ids=["first", "after another request"])
async def test_a_connection_that_begins_in_the_middle_of_a_session_starts_it_again_if_nothing_is_throttled_too(
    version: int, before: bytes, clock: trio.testing.MockClock
) -> None:
    """The process before this one may have translated it."""
    of = throttle()
    of.apply(NOTHING, 0.0)
    async with relayed(of) as wire:
        if before:
            await wire.follower.send_all(before)
            await wire.asked()
            reply = (123).to_bytes(4) + b"whatever"
            await wire.leader.send_all(with_length(reply))
            assert await read_frame(wire.follower) == reply
        await wire.follower.send_all(with_length(frame_of(version, {}, session=(SESSION, 9))))
        assert body_of(version, await read_frame(wire.follower)).error_code == 70
        full = frame_of(version, {0: 0})
        await wire.follower.send_all(with_length(full))
        asked = parse_fetch_request(await wire.asked())
        assert asked.session_epoch == 0
        opened = answer(version, [entry(0)])
        assert await hears(wire, opened) == opened


@each_version
async def test_quotas_off_in_mid_session_ends_it_whatever_the_path(version: int, clock: trio.testing.MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await meet(wire, version)
        wire.throttle.apply(NOTHING, trio.current_time())
        wire.changes.notify()
        await wire.follower.send_all(with_length(frame_of(version, {}, session=(SESSION, 1))))
        assert body_of(version, await read_frame(wire.follower)).error_code == 70
        full = frame_of(version, {0: 0, 1: 0, 2: 0})
        await wire.follower.send_all(with_length(full))
        await wire.asked()
        opened = answer(version, [entry(p) for p in range(3)], session_id=78)
        assert await hears(wire, opened) == opened
        passes = frame_of(version, {}, session=(78, 1))
        await wire.follower.send_all(with_length(passes))
        assert await wire.asked() == passes


@each_version
@pytest.mark.parametrize("what", ["malformed", "too large", "later version", "later version, throttle lifted"])
async def test_a_request_of_a_translated_session_that_is_not_understood_ends_the_connection(
    version: int, what: str, clock: trio.testing.MockClock
) -> None:
    """If it went on, what was omitted last would be missed for ever."""
    of = throttle()
    async with relayed(of, max_request_bytes=1000) as wire:
        await meet(wire, version)
        frame = frame_of(version, {}, session=(SESSION, 1))
        if what.startswith("later version"):
            frame = frame[:2] + SUPPORTED_FETCH_VERSIONS.stop.to_bytes(2) + frame[4:]
            if what.endswith("lifted"):
                of.apply(NOTHING, trio.current_time())
        elif what == "too large":
            frame = frame_of(version, dict.fromkeys(range(100), 0), session=(SESSION, 1))
        else:
            frame += b"!"
        await wire.follower.send_all(with_length(frame))
        await wire.finished.wait()
    assert wire.ending["cause"] == "malformed_frame"


@each_version
async def test_outside_a_session_what_is_not_understood_passes(version: int, clock: trio.testing.MockClock) -> None:
    async with relayed(throttle()) as wire:
        frame = frame_of(version, {0: 0}) + b"!"
        await wire.follower.send_all(with_length(frame))
        assert await wire.asked() == frame


@each_version
@pytest.mark.parametrize("reason", ["too_many_replicas", "request_too_large"])
async def test_a_session_that_is_too_large_passes_untouched(
    version: int, reason: str, clock: trio.testing.MockClock
) -> None:
    """A request of too many partitions was refused with error 70, and the follower sent the same one for ever. After
    one that was too large every second request was refused."""
    of = throttle()
    full, more = frame_of(version, {0: 5, 1: 5, 2: 5}), frame_of(version, {1: 6}, session=(SESSION, 1))
    if reason == "too_many_replicas":
        of.remembered.most_of_connection = 2
    async with relayed(of, max_request_bytes=len(full) - (reason == "request_too_large")) as wire:
        for sent in (full, more, full):
            await wire.follower.send_all(with_length(sent))
            assert await wire.asked() == sent
            frame = full_answer(version, 50)
            await wire.leader.send_all(with_length(frame))
            assert await read_frame(wire.follower) == frame
    assert of.statistics.undecoded == {reason: 3}


@each_version
async def test_a_session_that_grows_beyond_what_is_remembered_goes_on_after_one_refusal(
    version: int, clock: trio.testing.MockClock
) -> None:
    of = throttle()
    of.remembered.most_of_connection = 3
    async with relayed(of) as wire:
        await meet(wire, version)
        await wire.follower.send_all(with_length(frame_of(version, {3: 5, 4: 5}, session=(SESSION, 1))))
        assert body_of(version, await read_frame(wire.follower)).error_code == 70
        full = frame_of(version, dict.fromkeys(range(5), 5))
        await wire.follower.send_all(with_length(full))
        assert await wire.asked() == full


@each_version
async def test_an_answer_that_is_not_understood_opens_no_session(version: int, clock: trio.testing.MockClock) -> None:
    of = throttle()
    async with relayed(of) as wire:
        await wire.follower.send_all(with_length(frame_of(version, {0: 5, 1: 5})))
        await wire.asked()
        frame = full_answer(version, 50) + b"junk"
        await wire.leader.send_all(with_length(frame))
        assert await read_frame(wire.follower) == frame
        await trio.testing.wait_all_tasks_blocked()
        assert of.statistics.undecoded == {"malformed_response": 1}
        assert len(of.sessions) == 0


async def test_a_smaller_session_after_one_that_was_too_large_is_throttled(clock: trio.testing.MockClock) -> None:
    """It began while there were no quotas, so its first request passed unseen."""
    of = throttle()
    of.remembered.most_of_connection = 2

    async def passes(wire: Wire, sent: bytes) -> None:
        await wire.follower.send_all(with_length(sent))
        assert await wire.asked() == sent
        frame = answer(11, [entry(0, high_watermark=HIGH)])
        await wire.leader.send_all(with_length(frame))
        assert await read_frame(wire.follower) == frame

    async with relayed(of) as wire:
        await passes(wire, frame_of(11, {0: 5, 1: 5, 2: 5}))
        of.apply(Quotas(), 0.0)
        await passes(wire, frame_of(11, {0: 5}, session=(SESSION, 0)))
        of.apply(quotas(1 * MIB), 0.0)
        await wire.follower.send_all(with_length(frame_of(11, {0: 6}, session=(SESSION, 1))))
        assert body_of(11, await read_frame(wire.follower)).error_code == 70
