"""Makes the bytes of a decided request: the request that goes on to the leader, or the answer given here.

Pure. Knows neither replicas nor budgets: its caller has chosen what is asked for.

Invariant: except for what was chosen, a request goes on byte for byte as the follower wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.request import FetchRequestBuilder
from protocol.fetch.response import empty_fetch_response, error_fetch_response
from protocol.fetch.tables import NO_SESSION_ID
from protocol.session.requests import LocalAnswer, SessionRequest, full_upstream
from protocol.wire.headers import request_correlation_id

from .decision import Answer, Changed, Forward
from .time_slices import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.fetch.request import Asked, FetchRequest
    from protocol.fetch.response import ReplayedEntry
    from protocol.session.requests import Choice, Upstream

    from .decision import Demand
    from .pending_fetch import PendingFetch
    from .time_slices import Steps


def error(frame: bytes, request: FetchRequest, answer: LocalAnswer) -> Answer:
    """Answer that a fetch session is over, so that the follower starts a new one."""
    version, correlation_id = request.head.api_version, request_correlation_id(frame)
    return Answer(error_fetch_response(version, correlation_id, answer.error_code, session_id=answer.session_id))


def without_records(demand: Demand, replays: Sequence[ReplayedEntry], session_id: int) -> Answer:
    """Answer that there is nothing new of any partition."""
    version = demand.request.head.api_version
    return Answer(empty_fetch_response(version, demand.correlation_id, replays, session_id=session_id))


def without_session(demand: Demand, choice: Choice, pending: PendingFetch, max_wait_ms: int) -> Forward:
    """Forward a request outside of fetch sessions, without what is omitted and with the limits that were chosen."""
    request, left_out = demand.request, choice.omitted
    kept = {key: e for e in request.entries if (key := (e.topic, e.partition)) not in left_out}
    asks = full_upstream(SessionRequest(request.head.api_version, kept), choice, NO_SESSION_ID)
    if asks.as_it_came and not left_out:
        return Forward(None, pending)
    limited = [(entry, limit_bytes) for _, entry, limit_bytes in asks.listed]
    return Forward(None, pending, Changed(max_wait_ms, entries=limited))


def in_session(demand: Demand, asks: Upstream[Asked], pending: PendingFetch, max_wait_ms: int) -> Forward:
    """Forward a request that belongs to a fetch session or opens one."""
    if asks.as_it_came and max_wait_ms >= demand.request.max_wait_ms:
        return Forward(None, pending)
    asked = [entry._replace(partition_max_bytes=limit_bytes) for _, entry, limit_bytes in asks.listed]
    session = asks.session_id, asks.session_epoch
    return Forward(None, pending, Changed(max_wait_ms, asked=asked, session=session, forgotten=asks.forgotten))


def rebuild(demand: Demand, changed: Changed) -> Steps[bytes]:
    """Build the frame of a request that differs from the follower's."""
    builder = FetchRequestBuilder(demand.frame, demand.request)
    for entries in parts(changed.entries):
        builder.add_entries(entries)
        yield
    for asked in parts(changed.asked):
        builder.add_asked(asked)
        yield
    return builder.build(max_wait_ms=changed.max_wait_ms, session=changed.session, forgotten=changed.forgotten)
