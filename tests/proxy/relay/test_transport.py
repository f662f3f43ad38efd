"""A connection's sockets are set up so that the kernel finds out what nobody tells."""

from __future__ import annotations

import socket

from proxy.relay.transport import PlainSocket

FOUND_OUT_SECONDS = 120


def test_a_peer_whose_host_died_is_found_out() -> None:
    """By TCP keepalive: nothing else goes over a connection that both ends leave idle."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        PlainSocket(peer)
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, every, probes = (peer.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert idle + every * probes == FOUND_OUT_SECONDS
