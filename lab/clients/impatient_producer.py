"""A producer that is told throttle times and never waits for them, on a plain socket. Blocking."""

from __future__ import annotations

import socket
import struct
import time

from ..host.addresses import KAFKA_PORT
from ..wire.produce import produce_request
from ..wire.records import RecordMaker, Shape


class ImpatientProducer:
    """Produces batches of one record to partition 0 of a topic, one after the other."""

    def __init__(self, address: str, name: str, client_id: str, *, record_bytes: int = 50_000, acks: int = 1) -> None:
        self._connection = socket.create_connection((address, KAFKA_PORT), timeout=30)
        self._stream = self._connection.makefile("rb")
        self._batches = RecordMaker(Shape(record_bytes=record_bytes, batch_records=1, message_format="v2"))
        self._topic, self._client_id, self._acks = name, client_id, acks
        self.sent = 0

    def produce(self) -> tuple[int, float]:
        """Produce once; return the size of the request as the broker counts it, and the throttle time in seconds."""
        self.sent += 1
        frame = produce_request(
            self._topic, {0: self._batches.batch()}, correlation_id=self.sent, acks=self._acks, message_format="v2",
            client_id=self._client_id,
        )  # fmt: skip
        self._connection.sendall(frame)
        if not self._acks:
            return len(frame) - 4, 0.0
        (size,) = struct.unpack(">i", self._stream.read(4))
        (ms,) = struct.unpack(">i", self._stream.read(size)[-4:])
        return len(frame) - 4, ms / 1000

    def produce_for(self, seconds: float) -> float:
        """Return the bytes per second."""
        began = time.monotonic()
        sent = 0
        while time.monotonic() < began + seconds:
            sent += self.produce()[0]
        return sent / (time.monotonic() - began)

    def close(self) -> None:
        self._stream.close()
        self._connection.close()
