"""A broker that understands Produce and nothing else, for the tests of what produces."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from typing import Self


class FakeBroker:
    """Listens on an address of its own at port 9092; answers every Produce request with one entry.

    `errors` are the error codes of the next answers (0 when used up); `received` are whole request frames.
    Closes the connection instead of answering once `hang_up_after` requests have come; after `silent_after` it goes on
    to read and answers nothing.
    """

    def __init__(
        self,
        address: str,
        *,
        errors: tuple[int, ...] = (),
        hang_up_after: int = 10**9,
        silent_after: int = 10**9,
    ) -> None:
        self.address = address
        self.received: list[bytes] = []
        self._errors = deque(errors)
        self._hang_up_after = hang_up_after
        self._silent_after = silent_after

    def __enter__(self) -> Self:
        self._listener = socket.create_server((self.address, 9092))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # Whoever is tested may hang up before the last answer.
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as requests:
            while len(prefix := requests.read(4)) == 4:
                frame = requests.read(struct.unpack(">i", prefix)[0])
                self.received.append(frame)
                if len(self.received) >= self._hang_up_after:
                    return
                if len(self.received) <= self._silent_after:
                    connection.sendall(self._answer(frame))

    def _answer(self, frame: bytes) -> bytes:
        (correlation,) = struct.unpack_from(">i", frame, 4)
        error = self._errors.popleft() if self._errors else 0
        body = struct.pack(">iih6siihqqi", correlation, 1, 6, b"orders", 1, 0, error, len(self.received), -1, 0)
        return struct.pack(">i", len(body)) + body
