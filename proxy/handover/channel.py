"""The unix socket between two sidecars of a broker: messages with descriptors beside them.

    length (4 bytes, big endian), with the descriptors ─▶ message (msgpack)

The socket is in the sidecar's private directory (`proxy.control.directory`). The process at the other end has to be of
our own user or root's, since it gets every connection. Knows no message by name. Invariant: when `receive` raises, no
descriptor that came is left open; after a message that was not sent whole, none is sent.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from ..control.control_socket import peer_process
from ..control.directory import short_path
from .messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_MESSAGE_BYTES = 64 * 2**20
"""The longest message. The state of a connection with 20 000 replicas has 6 MiB."""
MAX_DESCRIPTORS = 253
"""The most descriptors beside one message, as many as the kernel allows (SCM_MAX_FD): all listening sockets come with
one, and each peer has one."""
ANSWER_SECONDS = 60.0
"""The time for which a process waits for the other: a new process reads its configuration and opens its files
meanwhile."""
SEND_SECONDS = 10.0
"""The time that a message may take from its first byte on. The other process takes 6 MiB in some hundredths of a
second."""
_LENGTH = struct.Struct(">I")
_LOST = (OSError, trio.ClosedResourceError)


_MESSAGES: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ChannelError(OSError):
    """The other process is gone, or belongs to a user that is neither ours nor root, or sends no message of ours."""


class GoneError(ChannelError):
    """The other process is gone."""


def _gone(error: OSError | trio.ClosedResourceError) -> GoneError:
    why = "the channel was closed" if isinstance(error, trio.ClosedResourceError) else error.strerror or error
    return GoneError(f"the other process is gone: {why}")


class MessageTooLongError(ChannelError):
    """A message is too long; nothing of it was sent, and others may be."""


class Channel:
    """An end of the socket between two processes. Owns `sock`."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._sock = sock
        self._sending = trio.Lock()

    async def connect(self, path: Path) -> int:
        """Connect to the process that listens there; return its id.

        Raises OSError if no process listens there, ChannelError if it is neither our user's nor root's.
        """
        with short_path(path) as name:
            await self._sock.connect(name)
        return self.refuse_strangers()

    def refuse_strangers(self) -> int:
        """Return the other process' id. Raises ChannelError if the process is neither our user's nor root's."""
        peer = peer_process(self._sock)
        if not peer.is_trusted:
            raise ChannelError(f"expected a process of user {os.geteuid()} or root, found {peer}")
        return peer.pid

    async def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message; if cancelled, nothing of it or all of it. Raises ChannelError."""
        encoded = msgspec.msgpack.encode(message)
        if len(encoded) > MAX_MESSAGE_BYTES:
            raise MessageTooLongError(f"expected at most {MAX_MESSAGE_BYTES} bytes to hand over, found {len(encoded)}")
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        data = memoryview(_LENGTH.pack(len(encoded)) + encoded)
        async with self._sending:
            try:
                sent = await self._sock.sendmsg([data[:1]], beside)
                is_whole = await self._send_rest(data[sent:])
            except _LOST as error:
                raise _gone(error) from error
        if not is_whole:
            raise ChannelError(f"the other process did not take a whole message within {SEND_SECONDS:g} s")

    async def _send_rest(self, rest: memoryview) -> bool:
        """Send it, whatever is cancelled meanwhile: the next message would be read as the rest of this one. False if
        the other process does not take it in time; then it gets no further message either."""
        with trio.move_on_after(SEND_SECONDS, shield=True):
            while rest:
                rest = rest[await self._sock.send(rest) :]
        if rest:
            self._sock.shutdown(socket.SHUT_WR)
        return not rest

    async def receive(self) -> tuple[Message, list[int]]:
        """Return the next message, and the descriptors beside it.

        Raises ChannelError; EOFError where the other end has closed between two messages.
        """
        first, ancillary, flags, _ = await self._received(socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
        descriptors = _descriptors(ancillary)
        try:
            return await self._message(first, is_cut=bool(flags & socket.MSG_CTRUNC)), descriptors
        except BaseException:
            close_all(descriptors)
            raise

    async def _message(self, first: bytes, *, is_cut: bool) -> Message:
        if not first:
            raise EOFError
        if is_cut:
            raise ChannelError("expected fewer descriptors")
        (size,) = _LENGTH.unpack(first + await self._exactly(_LENGTH.size - 1))
        if size > MAX_MESSAGE_BYTES:
            raise ChannelError(f"expected at most {MAX_MESSAGE_BYTES} bytes, found {size}")
        try:
            message = _MESSAGES.decode(await self._exactly(size))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ChannelError(f"not a message of ours: {error}") from error
        return message

    def shut_down(self) -> None:
        """Send and receive nothing more. A `receive` that waits meets the end."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    async def _received(self, room: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, object]:
        try:
            return await self._sock.recvmsg(1, room)
        except _LOST as error:
            raise _gone(error) from error

    async def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                more = await self._sock.recv(min(size - len(received), 2**20))
            except _LOST as error:
                raise _gone(error) from error
            if not more:
                raise ChannelError("the other process ended in the middle of a message")
            received += more
        return bytes(received)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    for descriptor in found:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no name
    return list(found)


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
