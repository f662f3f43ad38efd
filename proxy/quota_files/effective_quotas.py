"""Computes the effective quotas of a broker: those it starts with (of the file, the last good ones, or, with an
error, none), and at each moment how they differ from those in force.

`start_with` reads files and blocks; there is always an answer, even if a disk gives none. All else is pure: time is an
argument. A file of 50 000 topics takes 0.6 s, so a process that relays does it in a thread.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError
from ..files.reading import answers, no_answer, refuse_silent
from ..quotas import Change, Layer, QuotaFile, Quotas, changes_ahead, effective, parse_quotas
from ..quotas.advice import without_effect
from ..quotas.keys import OF_CLIENTS
from ..quotas.layer_values import Effect, LayerIndex, differing, effects_of, ended, with_file
from ..roles import Role
from .quota_file import Kept, kept, load_last_good, read_quotas_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from ..quotas.override import Override, PlacedValue
    from .quota_file import LastGood


_MOMENTS_AHEAD = 8
"""The number of coming moments that are looked at to find the next change by the clock (`upcoming`), each time the
quotas change."""
NO_HASH = "none"
"""The value in place of the file's hash while no quotas are in force."""


class WorkedOut(NamedTuple):
    """Effective quotas, and how they differ from those before."""

    before: Quotas
    quotas: Quotas
    """The very same as `before` if they are equal."""
    at: datetime
    changes: Mapping[str, tuple[object, object]]
    """The values before and after, by key. Rates are bytes per second."""
    start_keys: Sequence[str]
    """The same as `QuotaFile.start_keys`."""
    upcoming: Change | None
    """The next change that the clock alone will make. It is also None where `quotas` is `before`: then it was worked
    out before."""
    layer_index: LayerIndex
    without_effect: Mapping[Role, Sequence[str]]
    """Rates and lists that bound nothing, because no list selects anything for them."""


class InForce(NamedTuple):
    """The file that holds, the layers' words on single keys, and the time for which both were worked out."""

    file: QuotaFile
    layer_index: LayerIndex
    at: datetime
    size_bytes: int
    """The size of the file's text."""


class FileEffects(NamedTuple):
    """The effects of another file, or of the end of sections of the same."""

    first: Sequence[Effect] = ()
    """The first `MAX_EFFECTS` of them."""
    number: int = 0
    hash: str = ""
    """The short SHA-256 of the file."""


NO_EFFECTS = FileEffects()
MAX_EFFECTS = 20


def effects_between(before: InForce, after: InForce, broker_id: int) -> FileEffects:
    """Return the effects of a change of the file, or of the clock alone."""
    base, was, now = after.file.base, before.at, after.at
    if is_same := before.file.base is base:
        changed = ended(base, was, now, broker_id)
    else:
        changed = differing(before.file.base, base, broker_id)
    effects = effects_of(changed[:MAX_EFFECTS], before.layer_index, after.layer_index, was, now)
    told = list(effects if is_same else with_file(effects, after.layer_index, now))
    was_first, is_first = (", ".join(each.file.priorities.entries()) or "none" for each in (before, after))
    if was_first != is_first:
        told.append(Effect("priorities", "first", was_first, "priorities", is_first, "priorities"))
    return FileEffects(tuple(told), max(len(changed), len(told)), after.file.hash)


def effects_since_kept(kept: bytes, start: InForce, broker_id: int) -> FileEffects:
    """Return the effects of a file in place of the one that was kept."""
    try:
        before = replace(start.file, base=parse_quotas(kept, source="the last good quotas").base)
    except ConfigurationError:  # another version has kept it
        return NO_EFFECTS
    was = InForce(before, LayerIndex(before, broker_id), start.at, len(kept))
    return effects_between(was, start, broker_id)


def hidden(
    overrides: Sequence[Override], before: QuotaFile, after: QuotaFile, broker_id: int, now: datetime
) -> list[tuple[Override, PlacedValue, str, str]]:
    """Return the changes of overrides to keys that differ between two files, with the value in each of the files."""
    found, files = [], [LayerIndex(each, broker_id) for each in (before, after)]
    for override in overrides:
        for change in override.changes:
            was, is_now = (next(each.values(change.place, change.key, now)).value for each in files)
            if was != is_now:
                found.append((override, change, was, is_now))
    return found


def work_out(quota_file: QuotaFile, broker_id: int, before: Quotas, now: datetime) -> WorkedOut:
    keys, found = quota_file.start_keys(now), effective(quota_file, broker_id, now)
    index, inert = LayerIndex(quota_file, broker_id), without_effect(quota_file, found, broker_id, now)
    if found == before:
        return WorkedOut(before, before, now, {}, keys, None, index, inert)
    found, upcoming = _prepared(found, before), upcoming_of(quota_file, broker_id, now)
    return WorkedOut(before, found, now, _differences(before, found), keys, upcoming, index, inert)


def _prepared(found: Quotas, before: Quotas) -> Quotas:
    """Compare the lists and look through them now, in a thread, so that no connection waits for it."""
    leader = found.leader.sharing_lists_of(before.leader)
    follower = found.follower.sharing_lists_of(before.follower)
    for quota in (leader, follower):
        _ = quota.named
    clients = before.clients if found.clients == before.clients else found.clients
    return replace(found, leader=leader, follower=follower, clients=clients)


def upcoming_of(quota_file: QuotaFile, broker_id: int, now: datetime) -> Change | None:
    return next(changes_ahead(quota_file, broker_id, now, moments=_MOMENTS_AHEAD), None)


def log_fields(worked: WorkedOut) -> dict[str, object]:
    """Return the fields of a log line."""
    rates = {**_rates(worked.before, suffix="_before"), **_rates(worked.quotas)}
    return {"hash": worked.quotas.hash, "changed": sorted(worked.changes), **rates}


def _rates(quotas: Quotas, suffix: str = "") -> dict[str, float]:
    return {f"{role.value}_bytes_per_second{suffix}": quotas.of(role).bytes_per_second for role in Role}


def _differences(before: Quotas, now: Quotas) -> dict[str, tuple[object, object]]:
    old, new = _facts(before), _facts(now)
    found = {key: (value, new[key]) for key, value in old.items() if value != new[key]}
    for role in Role:
        was, holds = before.of(role).lists(), now.of(role).lists()
        names = [name for name in {**was, **holds} if was.get(name) != holds.get(name)]
        if names:
            lists = ({name: str(each[name]) for name in names if name in each} for each in (was, holds))
            found[f"{role.value}_replicas"] = next(lists), next(lists)
    return found


def _facts(quotas: Quotas) -> dict[str, object]:
    sources = {f"{role.value}_rate_source": _source(quotas, role) for role in Role}
    clients = {key.name: quotas.clients.by_label(key) for key in OF_CLIENTS}
    listener = {"listener_bytes_per_second": quotas.listener_bytes_per_second}
    return {**_rates(quotas), **sources, **clients, **listener, "enforce": quotas.enforce, "hash": quotas.hash}


def _source(quotas: Quotas, role: Role) -> str | None:
    source = quotas.of(role).source
    return None if source is None else str(source)


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
    """The problem of the file."""
    saved_at: float | None = None
    """Seconds since 1970: when the last good quotas were kept."""
    state_said: str | None = None
    """The problem of the last good quotas, or where they are from."""
    starts: Mapping[str, float] = {}
    """The time since when the file has had values that count from their start (such as `within`), as it was kept."""
    kept: bytes | None = None
    """The last good quotas beside a good file; None if there are none."""


def start_with(path: Path, state: Path | None) -> Start:
    """Return the quotas to start with. `state`: the directory of the last good ones; None: they are not kept."""
    if not answers(path):
        return _fall_back(no_answer(path), state)
    try:
        content, quota_file = read_quotas_file(path)
    except ConfigurationError as error:
        return _fall_back(str(error), state)
    beside = Kept() if state is None else kept(state)
    return Start(quota_file, content, Source.FILE, starts=beside.starts, kept=beside.content)


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
