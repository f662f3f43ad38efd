"""What all connections together hold of frames that have to be whole before anything is done with them.

A Fetch that is decided is read whole, a response of which records are taken out is gathered. Each has a bound of its
own; a thousand peers that send half of one and wait would still hold half a gigabyte. What finds no room passes as it
comes, or ends its connection where it must not.

Invariant: `held` is never above `most`, nor is `kept` above MOST_KEPT_BYTES.
"""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = 2**63
MOST_KEPT_BYTES = 4 * 2**20
"""What is read from a frame takes ten times as much. 250 connections that ask for 1000 partitions each."""
MOST_IN_SLICES = 8
"""25 000 partitions each are 60 MiB. All that come would be 4 GiB where 500 connections ask for so many at once, since
each has its slice in turn; the last of them is through at the same time either way."""


@dataclass(slots=True)
class Buffers:
    """In bytes; one per process."""

    most: int = UNLIMITED
    held: int = 0
    refused: int = 0
    """How many frames found no room."""
    is_memory_short: bool = False
    """The process nears what it may have of memory: nothing more is held."""

    kept: int = 0
    """Of frames that were read, in case that they are asked again."""
    in_slices: int = 0
    """How many long Fetches are being read and decided: each takes some 300 bytes for each of its partitions."""

    @property
    def has_room_for_slices(self) -> bool:
        """Another long Fetch may be begun. Whoever may not comes again when others had their turn."""
        return self.in_slices < MOST_IN_SLICES

    def keep(self, size: int) -> bool:
        """Whether a frame of so many bytes may be kept with what was read from it, until `let_go`."""
        if self.is_memory_short or self.kept + size > MOST_KEPT_BYTES:
            return False
        self.kept += size
        return True

    def let_go(self, size: int) -> None:
        self.kept -= size

    def reserve(self, size: int) -> bool:
        """Whether there is room for so many bytes, which are held until they are released."""
        if self.is_memory_short or self.held + size > self.most:
            self.refused += 1
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        self.held -= size
