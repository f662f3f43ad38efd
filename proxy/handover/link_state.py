"""A link's state between its value, as `proxy.throttle` has it, and the message to another process.

Pure. Invariant: the new link knows exactly what was taken off the old one. What a link would learn from an answer on
its way is not part of that, so nothing may be in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.request import Asked
from protocol.session.state import SessionState

from ..throttle.link import LinkState
from .messages import LinkMessage, SessionMessage

if TYPE_CHECKING:
    from ..throttle.link import Link


def link_message(link: Link, now: float) -> LinkMessage:
    """Return what `link` knows; no request of it may be in flight."""
    state = link.state(now)
    return LinkMessage(
        peer=state.peer,
        replica_id=state.replica_id,
        fetch_version=state.fetch_version,
        has_begun=state.has_begun,
        is_live=state.is_live,
        replicas=list(state.replicas),
        session=None if state.session is None else _session_message(state.session),
        passes=state.passes,
        proven_seconds=state.proven_seconds,
    )


def restore_link(link: Link, message: LinkMessage, now: float) -> None:
    """Give a new `link` what the link in the other process knew."""
    session = None if message.session is None else _session_state(message.session)
    passes = message.has_begun and session is None if message.passes is None else message.passes
    state = LinkState(
        message.peer, message.replica_id, message.fetch_version, message.has_begun, passes, message.is_live,
        message.replicas, session, message.proven_seconds,
    )  # fmt: skip
    link.restore(state, now)


def _session_message(state: SessionState[Asked]) -> SessionMessage:
    return SessionMessage(
        state.session_id,
        state.version,
        state.follower_epoch,
        state.leader_epoch,
        [(*key, bytes(asked.entry), asked.partition_max_bytes) for key, asked in state.partitions.items()],
        sorted(state.absent, key=str),
        [(*key, limit) for key, limit in state.lowered.items()],
        list(state.unsent),
        list(state.unforgotten),
    )


def _session_state(message: SessionMessage) -> SessionState[Asked]:
    listed = {
        (topic, partition): Asked(topic, entry, limit_bytes)
        for topic, partition, entry, limit_bytes in message.partitions
    }
    lowered = {(topic, partition): limit for topic, partition, limit in message.lowered}
    return SessionState(
        message.session_id, message.version, message.follower_epoch, message.leader_epoch, listed, message.absent,
        lowered, message.unsent, message.unforgotten,
    )  # fmt: skip
