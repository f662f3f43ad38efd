"""One conversation that an attacker holds with the sidecar, as a value: what is sent, what is answered, how it ends.

A case is a function of the seed, its family and its number alone, so that it can be told by those and made again.
Pure. Invariant: a case survives being written as JSON and read again.
"""

from __future__ import annotations

import enum
import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Door(enum.StrEnum):
    """The port that an attacker connects to."""

    INGRESS = "ingress"
    EGRESS = "strange"
    HTTP = "http"
    QUOTAS = "quotas"
    """No door: the chunk is what stands in quotas.toml."""


class Ending(enum.StrEnum):
    """The attacker's behaviour when all is sent."""

    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half_close"
    """Finish sending, and read what comes until the end."""
    LINGER = "linger"
    """Read for a moment, then close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One conversation of an attacker with the sidecar.

    Args:
        family: what made it.
        number: which one of its family.
        door: where it knocks.
        chunks: what is sent, each in a call of its own.
        frames: how many hostile requests or answers that are, for counting.
        ending: what follows.
        name: the client id by which the leader of the attackers knows it; empty if it does not matter.
        answers: what that leader sends, one after each request it gets; empty: what a leader would.
    """

    family: str
    number: int
    door: Door
    chunks: tuple[bytes, ...]
    frames: int
    ending: Ending = Ending.CLOSE
    name: str = ""
    answers: tuple[tuple[bytes, ...], ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.chunks)) + sum(len(chunk) for answer in self.answers for chunk in answer)

    def as_json(self) -> dict[str, Any]:
        """Return the case with its bytes as hexadecimal digits."""
        return {
            **asdict(self),
            "chunks": [chunk.hex() for chunk in self.chunks],
            "answers": [[chunk.hex() for chunk in answer] for answer in self.answers],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Case:
        """Read what `as_json` wrote. Raises KeyError, ValueError or TypeError for anything else."""
        return cls(
            family=said["family"],
            number=said["number"],
            door=Door(said["door"]),
            chunks=tuple(bytes.fromhex(chunk) for chunk in said["chunks"]),
            frames=said["frames"],
            ending=Ending(said["ending"]),
            name=said["name"],
            answers=tuple(tuple(bytes.fromhex(chunk) for chunk in answer) for answer in said["answers"]),
        )


def generator(seed: int, family: str, number: int) -> random.Random:
    """Return the random numbers of one case: the same on every machine, whatever was drawn before."""
    return random.Random(f"{seed}/{family}/{number}")  # noqa: S311 - to be repeated, not to be secret
