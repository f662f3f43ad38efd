"""Chooses the quotas that a sidecar starts with: those of the file, the last good ones, or, with an error, none.

Knows in which order the sources are tried, not how they are read. Blocking. Invariant: there is always an answer, even
if a disk gives none.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError
from ..files.reading import answers, no_answer, refuse_silent
from ..quotas.sections import Layer, QuotaFile
from .last_good import kept_starts, load_last_good
from .quota_file import read_quotas_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .last_good import LastGood

NO_HASH = "none"
"""Stands in place of the file's hash while no quotas are in force."""


class Source(enum.Enum):
    """The source of the quotas in force. The value is the metric label `source`."""

    FILE = "file"
    LAST_GOOD = "last_good"
    """The file was bad at start, these are the last ones that were not."""
    NONE = "none"
    """The file was bad at start, and nothing was kept: nothing is throttled."""


class Start(NamedTuple):
    quota_file: QuotaFile
    content: bytes | None
    source: Source
    error: str | None = None
    """What is wrong with the file."""
    saved_at: float | None = None
    """Seconds since 1970: when the last good quotas were kept."""
    state_said: str | None = None
    """What is wrong with the last good quotas, or where they are from."""
    starts: Mapping[str, float] = {}
    """For values that count from their start (`within`, for example), since when the file has had them, as it was
    kept."""


def start_with(path: Path, state: Path | None) -> Start:
    """Return the quotas to start with. `state`: the directory of the last good ones; None: they are not kept."""
    if not answers(path):
        return _fall_back(no_answer(path), state)
    try:
        content, quota_file = read_quotas_file(path)
    except ConfigurationError as error:
        return _fall_back(str(error), state)
    starts = {} if state is None else kept_starts(state)
    return Start(quota_file, content, Source.FILE, starts=starts)


def _fall_back(error: str, state: Path | None) -> Start:
    said = None if state is None else str(state)
    try:
        kept = None if state is None else _kept(state)
    except ConfigurationError as unusable:
        kept, said = None, str(unusable)
    if kept is None:
        return Start(QuotaFile(Layer(), NO_HASH), None, Source.NONE, error, state_said=said)
    return Start(kept.quota_file, kept.content, Source.LAST_GOOD, error, kept.saved_at, said, kept.starts)


def _kept(state: Path) -> LastGood | None:
    """Return the quotas that were kept; None if none ever were. Raises ConfigurationError."""
    refuse_silent(state)
    return load_last_good(state)
