"""What all connections together hold of frames that have to be whole before anything is done with them.

A Fetch that is decided is read whole, a response of which records are taken out is gathered. Each has a bound of its
own; a thousand peers that send half of one and wait would still hold half a gigabyte. What finds no room passes as it
comes, or ends its connection where it must not.

Invariant: `held` is never above `most`.
"""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = 2**63


@dataclass(slots=True)
class Buffers:
    """In bytes; one per process."""

    most: int = UNLIMITED
    held: int = 0
    refused: int = 0
    """How many frames found no room."""
    is_memory_short: bool = False
    """The process nears what it may have of memory: nothing more is held."""

    def reserve(self, size: int) -> bool:
        """Whether there is room for so many bytes, which are held until they are released."""
        if self.is_memory_short or self.held + size > self.most:
            self.refused += 1
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        self.held -= size
