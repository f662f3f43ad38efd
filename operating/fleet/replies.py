"""Describes the answers of sidecars to a change: alike answers once, with the brokers that gave them. Pure.

Invariant: every member is in exactly one line or group of lines.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..quota_words import format_distance, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from .members import Reply


def brokers(ids: Iterable[int]) -> str:
    """Return ids in few words: ``broker 101``, ``brokers 101-112, 115``."""
    found = sorted(set(ids))
    runs = [list(run) for _, run in itertools.groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    told = [str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs]
    return f"broker{'s' if len(found) != 1 else ''} {', '.join(told)}"


def whom(replies: Sequence[Reply]) -> str:
    """Return who answered alike: broker ids where they are known, else URLs."""
    known = [reply.broker for reply in replies if reply.broker is not None]
    unknown = [reply.member.url for reply in replies if reply.broker is None]
    return "; ".join([*([brokers(known)] if known else []), *unknown])


def result_lines(replies: Sequence[Reply], now: datetime) -> list[str]:
    """Return the changes, group by group, and then the members that refused or did not answer."""
    good = [reply for reply in replies if reply.error is None]
    lines = [
        line
        for group in alike(good, _effects_key)
        for line in (f"{whom(group)}:", *_effects(group[0].answer or {}, now))
    ]
    warned: dict[str, list[Reply]] = {}
    for reply in good:
        for text in (reply.answer or {}).get("warnings", ()):
            warned.setdefault(text, []).append(reply)
    lines += [f"warning: {whom(group)}: {text}" for text, group in warned.items()]
    late = [reply for reply in good if not (reply.answer or {}).get("in_force", True)]
    if late:
        lines.append(f"{whom(late)}: stored, but not in force after 1 s")
    behind = [reply for reply in good if (reply.answer or {}).get("not_stored")]
    for group in alike(behind, lambda each: str((each.answer or {})["not_stored"])):
        why = (group[0].answer or {})["not_stored"]
        lines.append(f"{whom(group)}: in force, but a restart would revert it until it is stored: {why}")
    return [*lines, *error_lines(replies)]


def error_lines(replies: Sequence[Reply]) -> list[str]:
    """Return who answered for another broker, who refused and why, and who did not answer."""
    refused = [reply for reply in replies if reply.refused]
    silent = [reply for reply in replies if reply.error is not None and not reply.refused and reply.answer is None]
    others = [reply for reply in replies if reply.error is not None and reply.answer is not None]
    lines = [f"{whom([reply])}: {reply.error}" for reply in others]
    lines += [f"{whom(group)}: refused: {group[0].error}" for group in alike(refused, lambda each: each.error)]
    if len(silent) == 1:
        url_is_said = silent[0].broker is None  # by the error
        lines.append(str(silent[0].error) if url_is_said else f"{whom(silent)}: {silent[0].error}")
    elif silent:
        lines.append(f"{whom(silent)}: no answer (the first: {silent[0].error})")
    return lines


def had_none(reply: Reply) -> bool:
    """Return True if a sidecar had no override that was to be undone."""
    return reply.refused and (reply.error or "").startswith("no override")


def alike(replies: Sequence[Reply], key: Callable[[Reply], Hashable]) -> list[list[Reply]]:
    """Return the replies in groups that have the same key."""
    groups: dict[Hashable, list[Reply]] = {}
    for reply in replies:
        groups.setdefault(key(reply), []).append(reply)
    return list(groups.values())


def _effects_key(reply: Reply) -> tuple[Any, ...]:
    """Return the key by which answers are grouped: the values, without their sections."""
    effects = (reply.answer or {}).get("effects", [])
    return tuple((each["place"], each["key"], each["before"], each["after"]) for each in effects)


def _effects(answer: Mapping[str, Any], now: datetime) -> list[str]:
    lines = []
    for effect in answer.get("effects", []):
        until = effect.get("until")
        ends = "" if until is None else f", until {_end(until, now)}"
        after = f"{effect['after']}  ({layer_name(effect['after_layer'])}{ends})"
        lines += [
            f"  {key_in_place(effect['place'], effect['key'])}",
            f"    was  {effect['before']}  ({layer_name(effect['before_layer'])})",
            f"    now  {after}",
        ]
    return lines


def _end(text: str, now: datetime) -> str:
    until = datetime.fromisoformat(text)
    return f"{format_time(until)}, {format_distance(until, now)}"


def layer_name(layer: str) -> str:
    """Return the layer's name without the section inside an override, which says the same again."""
    return layer.partition(":")[0] if layer.startswith("override ") else layer


def key_in_place(place: str, key: str) -> str:
    """Return ``mode.enforce``, the broker's key alone, or ``peers.102: `` and the key."""
    return f"mode.{key}" if place == "mode" else key if place == "broker" else f"{place}: {key}"
