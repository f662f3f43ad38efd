"""Whole frames that pass as they are, recognised by one unpack each and sent on together.

Most traffic of most connections is this: small fetches, their answers, heartbeats, metadata. What these functions
leave is read frame by frame: frames not whole in the window, anything that may go unanswered, SASL tokens, and every
Fetch that may be throttled. No I/O.

Invariant: a request is noted for its answer, and an answer is matched, before its bytes are called passable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.request import LAST_VERSION_WITH_REPLICA_ID, LEAST_BODY_BYTES, find_replica_id, peek_session
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.wire.apis import API_CONTROLLED_SHUTDOWN, API_FETCH, API_PRODUCE, API_SASL_HANDSHAKE, APIS
from protocol.wire.correlation import MAX_PLAUSIBLE_VERSION, State
from protocol.wire.framing import whole_request, whole_response
from protocol.wire.headers import RequestHead

if TYPE_CHECKING:
    from protocol.wire.framing import Bytes

    from .in_flight import InFlightRequests
    from .transfer import Window

PLAIN_APIS = APIS.keys() - {API_CONTROLLED_SHUTDOWN, API_FETCH, API_PRODUCE, API_SASL_HANDSHAKE}
"""Always answered, and followed by nothing but Kafka frames."""
FIRST_FLEXIBLE_VERSION = APIS[API_FETCH].flexible_from
KAFKA = State.KAFKA
MOST_FRAMES = 64
"""The most frames that are told to go on in one step, which takes some 0.1 ms: the clock is looked at after each step,
and a turn lasts 0.3 ms."""


def passable_requests(window: Window, exchange: InFlightRequests, room: int) -> int:
    """Return how many bytes at the window's start may go on to the leader, `room` requests at most."""
    buffer, at, end = window.buffer, window.start, window.end
    if exchange.correlator.state is not KAFKA:
        return 0
    room = min(room, MOST_FRAMES)
    while at < end and room > 0 and (whole := whole_request(buffer, at, end)) is not None:
        after, api_key, version, correlation_id, body_at = whole
        if not 0 <= version <= MAX_PLAUSIBLE_VERSION:
            break
        if api_key == API_FETCH:
            if not exchange.link.throttle.is_idle or not _passes_unseen(exchange, version, buffer, (body_at, after)):
                break
        elif api_key not in PLAIN_APIS:
            break
        exchange.sent_whole(correlation_id)
        at, room = after, room - 1
    return at - window.start


def _passes_unseen(exchange: InFlightRequests, version: int, buffer: Bytes, body: tuple[int, int]) -> bool:
    at, end = body
    if version not in SUPPORTED_FETCH_VERSIONS or end - at < LEAST_BODY_BYTES:
        return False
    if version >= FIRST_FLEXIBLE_VERSION:
        if buffer[at] != 0:  # tagged fields in the header
            return False
        at += 1
    return passes_unseen(exchange, RequestHead(API_FETCH, version, 0, None, at), buffer, end)


def passes_unseen(
    exchange: InFlightRequests, head: RequestHead, buffer: Bytes, end: int, *, is_whole: bool = True
) -> bool:
    """Return True if no partition of a Fetch may be throttled, and count the Fetch if so and if it is a replica's.

    `is_whole`: the Fetch ends at `end`; from v15 on the replica id is among its last fields.
    """
    if not exchange.link.may_pass_unseen(peek_session(head, buffer, end)):
        return False
    sees_replica = is_whole or head.api_version <= LAST_VERSION_WITH_REPLICA_ID
    replica_id = find_replica_id(head, buffer, end) if sees_replica else None
    if replica_id is None or replica_id >= 0:
        exchange.link.forget()
    if replica_id is not None and replica_id >= 0:
        exchange.fetched(head.api_version)
    return True


def passable_responses(window: Window, exchange: InFlightRequests) -> tuple[int, tuple[int, int] | None]:
    """Return how many bytes at the window's start may go on to the follower, and the response behind them if all of it
    is there: where it ends, and its correlation id. If any bytes may go on, `exchange.responded` is due."""
    buffer, at, end = window.buffer, window.start, window.end
    for _ in range(MOST_FRAMES):
        whole = whole_response(buffer, at, end)
        if whole is None or not exchange.received_whole(whole[1]):
            return at - window.start, whole
        at = whole[0]
        if at == end:
            break
    return at - window.start, None
