"""Breaches as they are kept: what broke, by whom, how fast it was found, and a file that shows it again.

Invariant: a file in the corpus holds everything that is needed to do the same again, and is the same for the same
finding.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .cases.case import Case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .invariant import Breach

    Kept = tuple[str, Sequence[Case]]
    """The content of a corpus file: the mode, and the cases."""

FORMAT = 1


@dataclass(slots=True)
class Finding:
    """One cause, as far as its signature tells, and how often it was met."""

    family: str
    mode: str
    seed: int
    breach: Breach
    cases: tuple[Case, ...]
    """The cases that show it by themselves; or else all that were under suspicion."""
    shown_again: bool
    """Whether one case alone did it again on a fresh sidecar."""
    after_frames: int
    after_seconds: float
    doing: str = ""
    """The activity besides, in words."""
    times: int = 1

    def as_json(self) -> dict[str, Any]:
        """Return the finding for the corpus and the report, bytes and all."""
        return {
            "format": FORMAT,
            "family": self.family,
            "mode": self.mode,
            "seed": self.seed,
            "broken": self.breach.how.value,
            "signature": self.breach.signature,
            "detail": self.breach.detail,
            "doing": self.doing,
            "shown_again": self.shown_again,
            "cases": [case.as_json() for case in self.cases],
        }

    def save(self, folder: Path) -> Path:
        """Write it into the corpus; returns the file."""
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{self.family}/{self.mode}/{self.breach.signature}".encode()).hexdigest()[:10]
        path = folder / f"{self.family}-{self.mode}-{name}.json"
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", "utf-8")
        return path


def cases_of(path: Path) -> Kept:
    """Return (mode, cases) of a corpus file. Raises ValueError for a file that is none, with its name."""
    try:
        said = json.loads(path.read_text("utf-8"))
        if said["format"] != FORMAT:
            raise ValueError(f"format {said['format']}, expected {FORMAT}")  # noqa: TRY301
        return str(said["mode"]), [Case.from_json(case) for case in said["cases"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a corpus file of this fuzzer: {error!r}") from error
