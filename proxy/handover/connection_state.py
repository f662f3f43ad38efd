"""A relayed connection at rest, as a value; and a new connection that goes on from such a value.

Knows the insides of `proxy.relay`. Invariant: a connection is taken only when nothing is owed in either direction, and
it does not move from then on. Bytes that its follower sends meanwhile stay in the socket, or are in `request_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from protocol.fetch.request import Asked
from protocol.session.state import SessionState
from protocol.wire.correlation import State

from ..relay.in_flight import HANDING
from ..relay.tls_socket import TlsSocket
from ..relay.transport import END, READ
from ..statistics.counters import Undecoded
from ..throttle.link import LinkState
from .messages import ClientMessage, ConnectionState, LinkMessage, SessionMessage

if TYPE_CHECKING:
    from ..relay.connection import Connection
    from ..throttle.link import Link

MAX_REQUEST_BYTES = 16 * 2**20
"""The most bytes that are passed on of a request that has come in part. If more of it has come, the connection ends in
the old process, as in a drain."""


def needs_this_process(connection: Connection) -> bool:
    """Return True if no other process can go on with the connection: the keys of its TLS are here."""
    return any(isinstance(end, TlsSocket) for end in connection.ends)


def come_to_rest(connection: Connection) -> None:
    """Let the connection begin no further request. A request that is held is answered now."""
    in_flight = connection.in_flight
    in_flight.service = HANDING
    if connection.is_held:
        in_flight.changes.notify()


def is_at_rest(connection: Connection) -> bool:
    """Return True if nothing is owed in either direction, so that the connection can be taken now."""
    in_flight = connection.in_flight
    asks, tells = connection.request_direction.transfer, connection.response_direction.transfer
    return (
        (in_flight.opaque is not None or in_flight.is_idle)
        and not (asks.owes or tells.owes or asks.window.ended or tells.window.ended)
        and not tells.window.size
        and asks.window.size <= MAX_REQUEST_BYTES
        and not connection.is_held
        and END not in (connection.request_direction.wants, connection.response_direction.wants)
    )


def take(connection: Connection, now: float) -> ConnectionState:
    """Return the state of a connection that is at rest, and let it move no more."""
    in_flight, window = connection.in_flight, connection.request_direction.transfer.window
    connection.request_direction.wants = connection.response_direction.wants = END
    link = in_flight.link
    upstream = link.translator.leader
    return ConnectionState(
        role=link.throttle.role.value,
        upstream=upstream if isinstance(upstream, tuple) else ("", 0),
        speaks=in_flight.correlator.state.value,
        is_opaque=in_flight.opaque is not None,
        opaque_reason=(in_flight.opaque or Undecoded.FRAMING).value,
        has_begun=connection.request_reader.has_begun,
        request_bytes=bytes(window.view(window.size)),
        frames=in_flight.frames,
        replica_fetches=in_flight.replica_fetches,
        link=link_message(link, now),
        clients=None if in_flight.attached_clients is None else ClientMessage(*in_flight.attached_clients.state(now)),
    )


def restore(connection: Connection, state: ConnectionState, now: float) -> None:
    """Give a new connection, which does not run yet, the state that it had in the other process."""
    in_flight = connection.in_flight
    in_flight.correlator.state = State(state.speaks)
    if state.is_opaque:
        # It passes unthrottled here as well, and this process counts from 0.
        known = state.opaque_reason in {each.value for each in Undecoded}
        in_flight.turn_opaque(Undecoded(state.opaque_reason) if known else Undecoded.FRAMING)
    in_flight.frames = state.frames
    in_flight.replica_fetches = state.replica_fetches
    restore_link(in_flight.link, state.link, now)
    if in_flight.attached_clients is not None:
        told = state.clients or ClientMessage(muted_seconds=0.0, session_id=0, answered=0)
        in_flight.attached_clients.restore(msgspec.structs.astuple(told), now)
    connection.request_reader.has_begun = state.has_begun
    if state.request_bytes:
        window = connection.request_direction.transfer.window
        view = window.space(len(state.request_bytes), len(state.request_bytes))
        view[: len(state.request_bytes)] = state.request_bytes
        window.end += len(state.request_bytes)
        connection.request_direction.data_available()
    connection.request_direction.wants = connection.response_direction.wants = READ


def link_message(link: Link, now: float) -> LinkMessage:
    """Return the link's state; no request of it may be in flight, since the state lacks what its answer would teach."""
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
    """Give a new `link` the state of the link in the other process."""
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
