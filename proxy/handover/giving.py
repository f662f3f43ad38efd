"""The old process' side: it offers itself at an address of its own, and gives everything to whoever takes it.

    Hello ─▶  ◀─ Offer with the listening sockets   (both may be served meanwhile, by the old one alone)
    Ready ─▶  the old one accepts nothing more; one connection after the other begins nothing any more, and goes over as
              soon as nothing of it is in flight; until its turn it is served as ever
              ◀─ ConnectionState with its two sockets, ...   then the end of the stream: the old process is gone

Until Ready whatever goes wrong changes nothing here. Knows what a server is only by `Server`. A TLS socket stays here,
and one end of a pair goes over in its place (`kept_ends`). Invariant: a connection that cannot be handed over ends here
as in a drain, and its follower dials the new process.
"""

from __future__ import annotations

import itertools
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import trio

from ..relay.tls_transport import TlsSocket
from .channel import ANSWER_SECONDS, Channel, ChannelError, close_all
from .connection_state import can_be_given, come_to_rest, is_at_rest, take
from .states import SCHEMA, Hello, Listening, Offer, Ready, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..config.settings import Address
    from ..logs.log import Log
    from ..relay.connection import Connection
    from ..relay.transport import Transport
    from .kept_ends import KeptEnds

LOOK_SECONDS, MOST_LOOK_SECONDS = 0.02, 0.32
"""Nothing tells when a connection has come to rest. So it is looked at after the first of these times, and then again
and again, each time after twice as long, at most after the second."""
TURN_SECONDS = 0.002
"""How long a connection's turn lasts at most before the next connection's begins. One that is at rest at once is on its
way by then: to take it and to send it takes 0.7 ms, to receive it and go on 1 ms. One that is not yet at rest is sent
later. Without turns, four hundred connections that all came to rest together waited 0.6 s for each other."""
SENT_BYTES = 8 * 1024
"""The size of the channel's send buffer in the kernel. It is small so that only about six connections at a time are on
their way, and served by nobody; all others are still served here."""
BIND_SECONDS = 0.05
NEXT_SECONDS = 2.0
"""If the other process has ended and a third one has taken over from it, that one certainly offers itself within this
time."""
TELL_AFTER = 200
"""After so many tries, in 10 s, a process tells that its address is another one's, and that it cannot offer itself."""
MOST_REST_SECONDS = 5.0
"""For so long a connection may have something in flight; the longest a fetch waits by default is half a second."""


Pairs: TypeAlias = "dict[Transport, tuple[socket.socket, socket.socket]]"
"""For each TLS socket of a connection a pair of others: this process' end, and the other one's."""


class Listener(NamedTuple):
    key: str
    address: Address
    descriptor: int


class Server(Protocol):
    """What is handed over."""

    broker: int

    def listening(self) -> Sequence[Listener]: ...
    def available_bytes(self) -> Mapping[str, float | None]: ...
    def fetch_versions(self) -> Sequence[int]: ...
    def hand_over(self, giving: Giving, process: int) -> None:
        """Accept nothing more, and have every connection `give` itself."""


class Giving:
    """One per process."""

    def __init__(self, address: str, server: Server, log: Log) -> None:
        self._address = address
        self._server = server
        self._log = log
        self._channel: Channel | None = None
        self._turn = trio.Lock()
        self.kept: KeptEnds | None = None
        """Where TLS sockets could stay whose connection goes over."""
        self._keeps: KeptEnds | None = None
        """The same, if whoever takes over knows of it; None: connections with TLS sockets end here."""
        self.given = 0
        self.taker: int | None = None
        """The id of the process that took over; None before one has."""

    async def run(self) -> None:
        """Wait for whoever takes over, until cancelled."""
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            await self._bind(listener)
            listener.listen(1)
            while self._channel is None:
                sock, _ = await listener.accept()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
                channel = Channel(sock)
                try:
                    await self._offer(channel)
                except (ChannelError, EOFError) as error:
                    told = str(error) or "the other process ended before it was ready"
                    self._log.warning("handover_failed", error=told)
                except trio.TooSlowError:
                    told = f"the other process was not ready within {ANSWER_SECONDS:g} s"
                    self._log.warning("handover_failed", error=told)
                finally:
                    if self._channel is not channel:
                        channel.close()
        # The address is free: the next process offers itself there.
        try:
            await self._tell_its_end(self._channel)
            await trio.sleep_forever()
        finally:
            self._channel.close()

    async def _tell_its_end(self, channel: Channel) -> None:
        """Say so if the other process ends and has handed over to nobody: then nobody listens.

        This process never goes back: it cannot tell a death from an end that somebody wanted, and the next process may
        be starting.
        """
        process = channel.refuse_strangers()
        with suppress(ChannelError, EOFError):
            while True:  # nothing that is wanted comes after Ready
                _, unwanted = await channel.receive()
                close_all(unwanted)
        await trio.sleep(NEXT_SECONDS)
        with suppress(OSError), trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as free:
            await free.bind(self._address)
            told = f"process {process} ended after it had taken over: nobody listens until a sidecar is started"
            self._log.error("handover_failed", error=told)

    async def _bind(self, listener: trio.socket.SocketType) -> None:
        """The process before this one has the address until it hands over."""
        for attempt in itertools.count():
            try:
                await listener.bind(self._address)
            except OSError as error:
                if attempt == TELL_AFTER:
                    self._log.warning("handover_unavailable", error=f"{error.strerror or error}")
                await trio.sleep(BIND_SECONDS)
            else:
                return

    async def _offer(self, channel: Channel) -> None:
        """Raises ChannelError, EOFError, trio.TooSlowError: nothing has changed, and this process serves on."""
        process = channel.refuse_strangers()
        with trio.fail_after(ANSWER_SECONDS):
            try:
                hello, _ = await channel.receive()
            except EOFError:  # whoever only asks which process is here, as a new one does when it has taken all
                return
            if not isinstance(hello, Hello) or (hello.schema, hello.broker) != (SCHEMA, self._server.broker):
                found = f"{hello.schema} and {hello.broker}" if isinstance(hello, Hello) else type(hello).__name__
                reason = f"expected schema {SCHEMA} and broker {self._server.broker}, found {found}"
                await channel.send(Refusal(reason))
                raise ChannelError(reason)
            self._keeps = self.kept if hello.takes_pairs else None
            listeners = self._server.listening()
            listening = [Listening(each.key, each.address.host, each.address.port) for each in listeners]
            offer = Offer(listening, dict(self._server.available_bytes()), list(self._server.fetch_versions()))
            await channel.send(offer, [each.descriptor for each in listeners])
            self._log.info("handover_offered", pid=process)
            ready, _ = await channel.receive()
            if not isinstance(ready, Ready):
                raise ChannelError("expected to be told that it is ready")
        self._channel, self.taker = channel, process
        self._log.info("handover_started", pid=process)
        self._server.hand_over(self, process)

    async def give(self, connection: Connection) -> bool:
        """Hand `connection` over in its turn, once nothing of it is in flight; False: it is to end here."""
        channel = self._channel
        if channel is None or not can_be_given(connection, takes_pairs=self._keeps is not None):
            return False
        async with self._turn:
            come_to_rest(connection)
            with trio.move_on_after(TURN_SECONDS):
                await _rest(connection)
            if is_at_rest(connection):
                return await self._send(connection, channel)
        with trio.move_on_after(MOST_REST_SECONDS):
            await _rest(connection)
        return is_at_rest(connection) and await self._send(connection, channel)

    async def _send(self, connection: Connection, channel: Channel) -> bool:
        try:
            pairs = _pairs(connection)
        except OSError as error:  # no descriptor is left
            self._log.warning("handover_failed", error=str(error), peer=connection.exchange.link.peer)
            return False
        state = take(connection, trio.current_time())
        theirs = [pairs[end][1].fileno() if end in pairs else end.fileno() for end in connection.ends]
        try:
            await channel.send(state, theirs)
        except ChannelError as error:
            self._log.warning("handover_failed", error=str(error), peer=state.link.peer)
            return True  # it cannot move any more: it ends, and its follower comes back
        else:
            self._keep(connection, pairs)
        finally:
            _close(pairs)
        self.given += 1
        return True

    def _keep(self, connection: Connection, pairs: Pairs) -> None:
        """Have its TLS sockets stay; takes what is theirs out of `pairs`."""
        if self._keeps is not None:
            for end in list(pairs):
                self._keeps.keep(end, pairs[end][0])
                connection.leave(end)
                pairs.pop(end)[1].close()


def _pairs(connection: Connection) -> Pairs:
    """Raises OSError."""
    pairs: Pairs = {}
    try:
        for end in connection.ends:
            if isinstance(end, TlsSocket):
                pairs[end] = socket.socketpair()
    except OSError:
        _close(pairs)
        raise
    return pairs


def _close(pairs: Pairs) -> None:
    for pair in pairs.values():
        for sock in pair:
            sock.close()


async def _rest(connection: Connection) -> None:
    """Return when it is at rest."""
    seconds = LOOK_SECONDS
    while not is_at_rest(connection):
        with trio.move_on_after(seconds):
            await connection.exchange.settled.wait()
        seconds = min(2 * seconds, MOST_LOOK_SECONDS)
