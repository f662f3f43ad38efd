"""How much memory all connections together hold for frames that have to be whole before anything is done with them.

A Fetch that is decided is read whole; a response that loses records is collected to its end. Each frame has a limit of
its own (`limits`), but a thousand peers that send half a frame and then nothing would still hold half a gigabyte. A
frame for which there is no room passes as it comes, or ends its connection where it must not pass.

Invariant: `held` is never above `most`, nor is `kept` above MOST_KEPT_BYTES.
"""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = 2**63
MOST_KEPT_BYTES = 4 * 2**20
"""The most bytes of requests that all connections keep, to compare the next request with. Only the frames count; what
was parsed from a frame is kept beside it and takes ten times as much. This is enough for 250 connections that ask for
1000 partitions each."""
MOST_IN_SLICES = 8
"""Long Fetches that are decided at the same time. Eight of 25 000 partitions each take 60 MiB; without a limit 500 of
them would take 4 GiB, and the last one would be decided no sooner."""


@dataclass(slots=True)
class Buffers:
    """The process's account of held memory, in bytes: one for all connections."""

    most: int = UNLIMITED
    held: int = 0
    refused: int = 0
    """How many frames found no room."""
    is_memory_short: bool = False
    """The process is close to its limit of memory (`limits.max_memory`): nothing more is held."""

    kept: int = 0
    """Bytes of requests that are kept with what was read from them, for followers that send the same request again."""
    in_slices: int = 0
    """How many long Fetches are being read and decided: each takes some 300 bytes for each of its partitions."""

    @property
    def has_room_for_slices(self) -> bool:
        """Another long Fetch may be begun. A connection that must wait asks again in its next turn."""
        return self.in_slices < MOST_IN_SLICES

    def keep(self, size: int) -> bool:
        """True: a frame of `size` bytes may be kept with what was read from it, until `let_go`."""
        if self.is_memory_short or self.kept + size > MOST_KEPT_BYTES:
            return False
        self.kept += size
        return True

    def let_go(self, size: int) -> None:
        self.kept -= size

    def reserve(self, size: int) -> bool:
        """True: there was room for `size` bytes, which now count as held until they are released."""
        if self.is_memory_short or self.held + size > self.most:
            self.refused += 1
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        self.held -= size
