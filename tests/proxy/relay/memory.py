"""Transports without a kernel: what arrives is fed to them, in any pieces, and what room they have is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.relay.transport import WOULD_WAIT

if TYPE_CHECKING:
    from protocol.wire.framing import Bytes

EVER = float("inf")


class MemoryTransport:
    """Receives what it is fed, piece by piece; keeps what it is sent, as far as there is room."""

    splices = False
    packet_bytes = 0

    def __init__(self, *, room: float = EVER) -> None:
        self.readable = True
        self.crossed = 0
        self.hung_up = self.finished = self.closed = False
        self.room = room
        self.kept = bytearray()
        self._pieces: list[bytes] = []
        self._ended = False

    def fileno(self) -> int:
        return -1

    def feed(self, *pieces: bytes) -> None:
        self._pieces += pieces
        self.readable = True

    def end(self) -> None:
        self._ended = self.readable = True

    def receive_into(self, view: memoryview) -> int:
        if not self._pieces:
            self.readable = self._ended
            return 0 if self._ended else WOULD_WAIT
        piece = self._pieces.pop(0)
        size = min(len(view), len(piece))
        view[:size] = piece[:size]
        if size < len(piece):
            self._pieces.insert(0, piece[size:])
        return size

    def peek_into(self, view: memoryview) -> int:
        raise NotImplementedError

    def send(self, data: Bytes) -> int:
        sent = int(min(len(data), self.room))
        self.room -= sent
        self.kept += data[:sent]
        return sent

    def finish_sending(self) -> None:
        self.finished = True

    def close(self) -> None:
        self.closed = True
