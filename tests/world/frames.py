"""A peer that reads and writes whole frames at its end of a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clock import Network
    from .pipes import End


class Splitter:
    """Cuts a stream into frames, without their lengths."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = self._needed = 0

    def split(self, came: bytes) -> Iterator[bytes]:
        self._parts.append(came)
        self._size += len(came)
        while self._size >= max(self._needed, 4):
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = [data]
            end = self._needed = 4 + int.from_bytes(data[:4])
            if len(data) < end:
                return
            frame = data[4:end]
            self._parts = [data[end:]]
            self._size -= end
            self._needed = 0
            yield frame


class FramedPeer:
    """`came` gets each frame without its length, `lost` is called once when the connection is over."""

    def __init__(self, network: Network, end: End) -> None:
        self.network, self.end = network, end
        self.reads_from = 0.0
        """Nothing is read before."""
        self.received_bytes = 0
        self._frames = Splitter()
        self._unsent = bytearray()
        self._is_over = False
        end.wake = self._woken
        network.soon(self._woken, end, True, True)

    def came(self, frame: bytes) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        return self._is_over

    def write(self, frame: bytes) -> None:
        self._unsent += frame
        self._flush()

    def leave(self) -> None:
        """End the connection from this side; `lost` is not called."""
        self._is_over = True
        self.end.close()

    def _flush(self) -> None:
        if self._is_over or not self._unsent:
            return
        try:
            sent = self.end.send(memoryview(self._unsent))
        except OSError:
            self._ends()
            return
        del self._unsent[:sent]

    def _woken(self, end: End, readable: bool, writable: bool) -> None:
        if self._is_over or end is not self.end:
            return
        if writable:
            self._flush()
        if readable and not self._is_over:
            self._read()

    def _read(self) -> None:
        if self.reads_from > self.network.now:
            if self.reads_from < float("inf"):
                self.network.at(self.reads_from, self._woken, self.end, True, False)
            return
        if self.end.is_broken:
            self._ends()
            return
        came = self.end.take()
        self.received_bytes += len(came)
        for frame in self._frames.split(came):
            if self._is_over:
                return
            self.came(frame)
        if self.end.hung_up and not self._is_over:
            self._ends()

    def _ends(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.lost()
