"""The old process' side: it offers itself at a private socket, and gives everything to the process that takes over.

    Hello ─▶      ◀─ Offer with the listening sockets
    Ready ─▶, and Alive ─▶ twice a second from then on: for PROVING_SECONDS nothing changes, the old process serves
                  ◀─ Begin: it accepts nothing more; one connection after the other begins nothing any more, and goes
                     over as soon as nothing of it is in flight; until its turn it is served as ever
                  ◀─ ConnectionState with its two sockets, ...
                  ◀─ Confirmed, after PROVING_SECONDS more: until then the old process keeps its listeners
                     the end of the stream: the old process is gone
 If the new process ends or hangs before it is confirmed, the old process accepts again and keeps the connections it has
not given. Knows a server only by `Server`. Invariants: while no process is confirmed, this one serves or
will again. A connection that cannot be handed over, as one with TLS (`ending_turns`), ends here as in a drain, and its
follower dials the new process."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from ..control.directory import short_path
from ..relay.connection import Given
from .channel import ANSWER_SECONDS, Channel, ChannelError, MessageTooLongError, close_all
from .connection_state import come_to_rest, is_at_rest, needs_this_process, take
from .ending_turns import EndingTurns
from .messages import Alive, Begin, Confirmed, HandOverRefusal, Listening, Offer, Ready
from .refusals import refuse_hello, refuse_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..clients.entity import ClientDebt
    from ..config.settings import Address
    from ..logs.log import Log
    from ..quotas.override import Override
    from ..relay.connection import Connection

LOOK_SECONDS, MAX_LOOK_SECONDS = 0.02, 0.32
"""The first and the longest pause between two looks at a connection that is not at rest; each is twice as long as the
one before. No event announces the rest."""
TURN_SECONDS = 0.002
"""How long a connection's turn lasts at most before the next connection's begins. One that is at rest at once is on its
way by then: to take it and to send it takes 0.7 ms, to receive it and go on 1 ms. One that is not yet at rest is sent
later. Without turns, four hundred connections that all came to rest together waited 0.6 s for each other."""
SENT_BYTES = 8 * 1024
"""The size of the channel's send buffer in the kernel. It is small so that only about six connections at a time are on
their way, and not served meanwhile; all others are still served here."""
WAITING = 16
"""The backlog of the socket: processes that only ask whether this one is here."""
PROVING_SECONDS = 3.0
"""How long the other process has to run before it gets anything, and again before it keeps what it got. What is wrong
with a new version or its settings mostly shows in its first seconds."""
SILENCE_SECONDS = 5.0
"""A process that sends no `Alive` for so long hangs."""
MAX_REST_SECONDS = 5.0
"""How long a connection may have something in flight; the longest a fetch waits by default is half a second."""


class Listener(NamedTuple):
    key: str
    address: Address
    descriptor: int


class Server(Protocol):
    """The server that is handed over."""

    broker: int

    def listening(self) -> Sequence[Listener]: ...
    def available_bytes(self) -> Mapping[str, float | None]: ...
    def client_debts(self) -> list[ClientDebt]: ...
    def unstored(self) -> list[Override] | None: ...
    def fetch_versions(self) -> Sequence[int]: ...
    def is_ending(self) -> bool:
        """Return True if this process was told to end: then nothing is gained by waiting for a proof."""

    def hand_over(self, giving: OldProcess) -> None:
        """Accept nothing more, and have every connection `give` itself."""

    def take_back(self) -> None:
        """Accept again, and keep the connections that were not given."""

    def confirm(self, process: int) -> None:
        """Close the listeners, which the other process has, and end with the last connection."""


class OldProcess:
    """The hand-over from this process, to one process after the other until one has proven itself."""

    def __init__(self, path: Path | None, server: Server, log: Log) -> None:
        self._path = path
        """The socket at which this process offers itself; None: no process can take over."""
        self._server = server
        self._log = log
        self._channel: Channel | None = None
        """The channel to the process that takes over; None: there is none."""
        self._turn = trio.Lock()
        self._endings = EndingTurns(log)
        """The turns of the connections that end here during the present hand-over."""
        self.given = 0
        """Connections that went over to the process that takes over now."""
        self.successor: int | None = None
        """The id of the process that took over and has proven itself; None: there is none."""

    async def run(self) -> None:
        """Wait for a process that takes over, until cancelled."""
        listener = None if self._path is None else self._listener(self._path)
        if listener is None:
            await trio.sleep_forever()
        with listener:
            while self.successor is None:
                sock, _ = await listener.accept()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
                channel = Channel(sock)
                try:
                    await self._try(channel)
                finally:
                    if self.successor is None:
                        channel.close()
        try:
            await self._endings.report()
            await trio.sleep_forever()
        finally:
            channel.close()

    async def _try(self, channel: Channel) -> None:
        """Hand over to the process at the other end. If it fails, this process serves on."""
        self.given = 0
        try:
            process = channel.refuse_strangers()
            with trio.fail_after(ANSWER_SECONDS):
                is_ready = await self._offer(channel, process)
            if is_ready:
                await self._hand_over(channel, process)
        except (ChannelError, EOFError) as error:
            self._fail(str(error) or "the other process ended before it had proven itself")
        except trio.TooSlowError:
            self._fail(f"the other process was not ready within {ANSWER_SECONDS:g} s")

    def _fail(self, error: str) -> None:
        if self.given:
            self._log.error("handover_failed", error=error, connections=self.given)
        else:
            self._log.warning("handover_failed", error=error)
        self._give_up()

    def _give_up(self) -> None:
        """Serve on, with the connections that have not gone over."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            channel.shut_down()  # a task that waits for a message there learns that none comes
            self._server.take_back()

    def _listener(self, path: Path) -> trio.socket.SocketType | None:
        """Return a socket that listens there, in place of the previous process. None, with a line in the log, if
        there cannot be one."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        new = path.with_name(f"{path.name}.new")
        try:
            new.unlink(missing_ok=True)
            with short_path(new) as name:
                listener.bind(name)
            new.chmod(0o600)
            listener.listen(WAITING)
            new.rename(path)
        except OSError as error:
            listener.close()
            self._log.warning("handover_unavailable", error=f"{path}: {error.strerror or error}")
            return None
        return trio.socket.from_stdlib_socket(listener)

    async def _offer(self, channel: Channel, process: int) -> bool:
        """Return whether the process is ready; false if it only asked whether this one is here.

        Raises ChannelError, EOFError: nothing has changed.
        """
        try:
            hello, unwanted = await channel.receive()
        except EOFError:
            return False
        close_all(unwanted)
        reason = refuse_process(os.getpid(), process) or refuse_hello(hello, broker=self._server.broker)
        if reason is not None:
            await channel.send(HandOverRefusal(reason))
            raise ChannelError(reason)
        listeners = self._server.listening()
        listening = [Listening(each.key, each.address.host, each.address.port) for each in listeners]
        offer = Offer(listening, list(self._server.fetch_versions()))
        await channel.send(offer, [each.descriptor for each in listeners])
        self._log.info("handover_offered", pid=process)
        ready, unwanted = await channel.receive()
        close_all(unwanted)
        if not isinstance(ready, Ready):
            raise ChannelError("expected Ready")
        return True

    async def _hand_over(self, channel: Channel, process: int) -> None:
        """Give the connections. Raises ChannelError, EOFError: the process has failed."""
        await self._prove(channel)
        await channel.send(
            Begin(dict(self._server.available_bytes()), self._server.client_debts(), self._server.unstored())
        )
        self._channel = channel
        self._endings = EndingTurns(self._log)
        self._log.info("handover_started", pid=process)
        self._server.hand_over(self)
        await self._prove(channel)
        await channel.send(Confirmed())
        self.successor = process
        self._server.confirm(process)

    async def _prove(self, channel: Channel) -> None:
        """Return when the loop of the other process has turned for PROVING_SECONDS. Raises ChannelError, EOFError."""
        proven_at = trio.current_time() + PROVING_SECONDS
        while trio.current_time() < proven_at and not self._server.is_ending():
            try:
                with trio.fail_after(SILENCE_SECONDS):
                    alive, unwanted = await channel.receive()
            except trio.TooSlowError:
                raise ChannelError(f"the other process was silent for {SILENCE_SECONDS:g} s") from None
            close_all(unwanted)
            if not isinstance(alive, Alive):
                raise ChannelError(f"expected Alive, found {type(alive).__name__}")

    async def give(self, connection: Connection) -> Given:
        """Hand `connection` over in its turn, once nothing of it is in flight."""
        if connection.in_flight.cause is not None:
            return Given.ENDS
        if needs_this_process(connection):
            given = await self._endings.give(connection)
            return Given.STAYS if self._channel is None else given
        async with self._turn:
            if self._channel is None:
                return Given.STAYS
            come_to_rest(connection)
            with trio.move_on_after(TURN_SECONDS):
                await self._rest(connection)
            if is_at_rest(connection):
                return await self._send(connection)
        with trio.move_on_after(MAX_REST_SECONDS):
            await self._rest(connection)
        if is_at_rest(connection):
            return await self._send(connection)
        return Given.STAYS if self._channel is None else Given.ENDS

    async def _rest(self, connection: Connection) -> None:
        """Return when it is at rest, or need not come to rest any more."""
        seconds = LOOK_SECONDS
        while self._channel is not None and not is_at_rest(connection):
            with trio.move_on_after(seconds):
                await connection.in_flight.settled.wait()
            seconds = min(2 * seconds, MAX_LOOK_SECONDS)

    async def _send(self, connection: Connection) -> Given:
        channel = self._channel
        if channel is None:
            return Given.STAYS
        state = take(connection, trio.current_time())
        try:
            await channel.send(state, [end.fileno() for end in connection.ends])
        except MessageTooLongError as error:
            self._log.warning("handover_failed", error=str(error), peer=state.link.peer)
            return Given.ENDS
        except ChannelError:
            if self.successor is not None:  # it has the listeners, and has failed since
                return Given.ENDS
            self._give_up()
            return Given.STAYS
        self.given += 1
        return Given.TAKEN
