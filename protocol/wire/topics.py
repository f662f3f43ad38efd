"""Reads topics: names, decoded once since the same few come with every fetch, or ids.

Must not know where a topic stands in a message. Invariant: memory is bounded, whatever names a peer makes up.
"""

from __future__ import annotations

from typing import TypeAlias

from ..errors import ProtocolError

Topic: TypeAlias = str | bytes
"""A name; since Fetch v13 a topic id of 16 bytes (KIP-516)."""

MAX_TOPIC_BYTES = 249  # org.apache.kafka.common.internals.Topic; the wire format would take more
MAX_REMEMBERED = 20_000


class DecodedNames(dict[bytes, str]):
    """``names[encoded]`` is the name, one and the same object each time; ProtocolError if it is not UTF-8."""

    __slots__ = ()

    def __missing__(self, encoded: bytes) -> str:
        try:
            name = str(encoded, "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError("topic: not UTF-8") from error
        if len(encoded) <= MAX_TOPIC_BYTES:  # a longer one is no topic's, and 20 000 of them would be 640 MB
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[encoded] = name
        return name
