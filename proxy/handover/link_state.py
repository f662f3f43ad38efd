"""Converts a link to a value, and restores a link from one.

Knows the insides of links, replicas and fetch sessions, so that these need not know that they may be handed over. Pure:
time is an argument. Invariant: the new link knows exactly what was taken off the old one. What a link would learn from
an answer on its way is not part of that, so nothing may be in flight.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from admission.budget import StrictBudget
from protocol.fetch.request import Asked
from protocol.fetch.walker import RequestEntry
from protocol.session.registry import KnownSession
from protocol.session.requests import SessionRequest
from protocol.session.state import FetchSession
from protocol.session.state import SessionState as OpenSession
from protocol.session.translator import Translation

from ..throttle.replica import Replica, Standing
from .messages import LinkState, ReplicaState, SessionState

if TYPE_CHECKING:
    from ..throttle.link import Link
    from ..throttle.replicas import Replicas
    from ..throttle.role_throttle import RoleThrottle


def link_state(link: Link, now: float) -> LinkState:
    """Return what `link` knows; no request of it may be in flight."""
    return LinkState(
        peer=link.peer,
        replica_id=link._replica_id,
        fetch_version=link.replicas.fetch_version,
        has_begun=link.translator._began,
        passes=link.translator._passes,
        is_live=link._is_live,
        replicas=_replica_states(link.replicas, now),
        session=_session_state(link),
        proven_seconds=link.replicas.timings.proven_seconds,
    )


def restore_link(link: Link, state: LinkState, now: float) -> None:
    """Give a new `link` what the link in the other process knew."""
    link.peer = state.peer
    link._replica_id = state.replica_id
    link._is_live = state.is_live
    link.translator._began = state.has_begun
    link.translator._passes = state.has_begun and state.session is None if state.passes is None else state.passes
    link.replicas.fetch_version = state.fetch_version
    link.replicas.timings.proven_seconds = state.proven_seconds
    _restore_replicas(link.replicas, state.replicas, now)
    if state.session is not None:
        _restore_session(link, state.session, now)


def available_bytes(throttle: RoleThrottle, now: float) -> float | None:
    """Return what the role's budget has left; None if it is unlimited, or if its policy (`kip73`) counts in another
    way."""
    budget = throttle.budget
    if not isinstance(budget, StrictBudget):
        return None
    available = budget._bucket.available(now)
    return None if math.isinf(available) else available


def restore_budget(throttle: RoleThrottle, available: float | None, now: float) -> None:
    """Begin with no more than the other process has left, or with its debt, so that both together keep to the quota."""
    budget = throttle.budget
    if isinstance(budget, StrictBudget) and available is not None:
        budget._bucket._tokens = min(budget._bucket.available(now), available)


def _replica_states(replicas: Replicas, now: float) -> list[ReplicaState]:
    changed = replicas.changed
    found = [_replica_state(replica, None, is_changed=key in changed) for key, replica in replicas.known.items()]
    missing = replicas._omitted.missing.values()
    return found + [_replica_state(replica, max(now - since, 0.0), is_changed=False) for replica, since in missing]


def _replica_state(replica: Replica, missing_seconds: float | None, *, is_changed: bool) -> ReplicaState:
    likely = replica._likely_bytes
    return ReplicaState(
        *replica.key,
        replica.fetch_offset,
        replica.leader_epoch,
        replica.limit_bytes,
        replica.high_watermark,
        replica.log_start_offset,
        replica.standing.name,
        replica.batches.seen,
        replica.served,
        replica._empty_grants,
        replica._need_bytes,
        replica.replayable,
        replica._delivered,
        None if math.isinf(likely) else likely,
        is_changed,
        missing_seconds,
    )


def _restore_replicas(replicas: Replicas, states: list[ReplicaState], now: float) -> None:
    """Restore the replicas that the lists select now. The others are not throttled, so nothing is remembered of
    them."""
    replicas._asked_at = now
    for state in states:
        key = (state.topic, state.partition)
        if not replicas.selects(key) or not replicas._remembered.admits(len(replicas)):
            continue
        replica = _restored_replica(state, now)
        if state.missing_seconds is not None:
            replicas._omitted.missing[key] = (replica, now - state.missing_seconds)
            continue
        replicas.known[key] = replica
        replicas._place(key, replica)
        if state.is_changed:
            replicas.changed[key] = None


def _restored_replica(state: ReplicaState, now: float) -> Replica:
    entry = RequestEntry(
        state.topic, state.partition, state.leader_epoch, state.fetch_offset, state.limit_bytes, *_NOWHERE
    )
    replica = Replica(entry, now)
    replica.high_watermark = state.high_watermark
    replica.log_start_offset = state.log_start_offset
    replica.standing = Standing[state.standing]
    replica.batches.saw_first(state.largest_batch_bytes)
    replica.served = state.served
    replica._empty_grants = state.empty_grants
    replica._need_bytes = state.need_bytes
    replica.replayable = state.replayable
    replica._delivered = state.delivered
    replica._likely_bytes = math.inf if state.likely_bytes is None else state.likely_bytes
    replica._wishes()
    return replica


def _session_state(link: Link) -> SessionState | None:
    """Return the fetch session that this connection used last, if the sidecar translates it and it has not ended."""
    sent = link._session.sent
    known = None if sent is None else sent._known
    if known is None or known.busy or not link.throttle.sessions.is_current(known):
        return None
    session = known.session.state()
    return SessionState(
        session.session_id,
        session.version,
        session.follower_epoch,
        session.leader_epoch,
        [(*key, bytes(asked.entry), asked.partition_max_bytes) for key, asked in session.partitions.items()],
        sorted(session.absent, key=str),
        [(*key, limit) for key, limit in session.lowered.items()],
        list(session.unsent),
        list(session.unforgotten),
    )


def _restore_session(link: Link, state: SessionState, now: float) -> None:
    listed = {
        (topic, partition): Asked(topic, entry, limit_bytes)
        for topic, partition, entry, limit_bytes in state.partitions
    }
    lowered = {(topic, partition): limit for topic, partition, limit in state.lowered}
    session = FetchSession.from_state(
        OpenSession(
            state.session_id, state.version, state.follower_epoch, state.leader_epoch, listed, state.absent, lowered,
            state.unsent, state.unforgotten,
        )
    )  # fmt: skip
    sessions, translator = link.throttle.sessions, link.translator
    known = KnownSession(session, leader=translator.leader, user=translator, used_at=now)
    sessions.open(known)
    request: SessionRequest[Asked] = SessionRequest(state.version, {}, state.session_id, state.follower_epoch)
    link._session.sent = Translation(sessions, translator, request, known=known, now=now)


_NOWHERE = (0, 0)
"""Offsets of the entry in its frame. Nobody asks for them, since the frame stayed with the other process."""
