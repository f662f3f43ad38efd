"""``history``: lists the changes at one or more sidecars: when, by whom, why, and the values before and after.

Asks the sidecars; the files are read here only where this host's sidecar does not answer, and the output says so.
Invariant: that a sidecar does not run, and that nothing has changed, is said where nothing leaves it open.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click
import msgspec

from proxy.errors import InvalidValueError
from proxy.history.recorder import PATH, page
from proxy.history.records import KEPT
from proxy.logs.terminal_text import printable_answer
from proxy.quotas import parse_span

from ..configuration import state_of
from ..fleet.members import Member, Reply, at_all, get, local_settings
from ..fleet.replies import error_lines, key_in_place, layer_name, whom
from ..presence import why_it_may_run
from ..quota_words import format_time, parse_moment
from ..terminal import encoded, problems_as_json, say, say_json
from .options import json_option, parsed, where_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from .options import Where

Json = dict[str, Any]
TOGETHER_SECONDS = 60.0
"""The longest time between equal records of a fleet's members that are shown together."""
_BYTES = re.compile(r" \(\d+ B/s\)")
_PROCESS = {
    "started": "started",
    "stopped": "stopped",
    "taken_over": "took over",
    "handed_over": "handed over",
    "handover_failed": "hand-over failed",
}


@click.command("history", short_help="Show what changed, when and by whom.")
@click.option(
    "--since", default="24h", show_default=True, metavar="TIME", help="From 2h, 1d12h ago, or a time with an offset."
)
@where_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, since: str, where: Where, as_json: bool) -> None:
    """Show what changed, the newest last: overrides set, undone and ended, edits of quotas.toml, starts, ends and
    hand-overs, conditions raised and cleared; with the values in force before and after.

    Kept for 30 days or 10 MB beside the overrides. Where this host's sidecar does not answer, its files are read. Exit
    status 1 if a sidecar that may run does not answer, or if a file cannot be read.

    \b
    Examples:
      throttle-sidecar history --since 2h
      throttle-sidecar history --since 2026-12-01T02:00:00Z --fleet fleet.toml
      throttle-sidecar history --since 30d --json | jq '.sidecars[].records[] | select(.event == "override_set")'
    """
    with problems_as_json(as_json=as_json):
        begins = parsed("--since", partial(_moment, now=datetime.now(UTC)), since)
        members = where.members()
        asked = f"{PATH}?since={quote(begins.isoformat())}"
        replies = at_all(members, partial(get, page=asked))
        offline = None if where.urls or where.fleet else _offline(replies[0], begins)
    replies = replies if offline is None else [offline.reply]
    if as_json:
        read_from = {} if offline is None else {"read_from": str(offline.directory), "error": offline.error}
        told = [{"url": each.member.url, "error": each.error, **(each.answer or {}), **read_from} for each in replies]
        say_json(encoded({"since": begins, "sidecars": told}))
    else:
        head = [] if offline is None else [offline.head]
        say("\n".join([*head, *listing(replies, begins), *error_lines(replies)]))
    if any(reply.error is not None or (reply.answer or {}).get("problems") for reply in replies):
        ctx.exit(1)


def _moment(text: str, *, now: datetime) -> datetime:
    """Return the moment that `text` names, no earlier than the first entry kept. Raises InvalidValueError."""
    try:
        return now - min(parse_span(text), KEPT)
    except InvalidValueError:
        return max(parse_moment(text).astimezone(UTC), now - KEPT)


class _Offline(NamedTuple):
    """The history that was read from files."""

    reply: Reply
    directory: Path
    error: str | None
    """The reason why a sidecar that may run does not answer; None: it does not run."""

    @property
    def head(self) -> str:
        if self.error is None:
            return f"the sidecar does not run: read from {self.directory}"
        return f"the sidecar does not answer: {self.error}; read from {self.directory}"


def _offline(reply: Reply, since: datetime) -> _Offline | None:
    """Read the files of this host's sidecar if it does not answer; None if it does, or if no proxy.toml names them."""
    settings = None if reply.error is None or reply.refused else local_settings()
    if settings is None:
        return None
    directory, broker = state_of(settings, ()).parent.absolute(), settings.broker.id
    answer = msgspec.json.decode(msgspec.json.encode(page(directory, broker, since)))
    may_run = why_it_may_run(settings)
    if may_run is not None:
        answer["problems"].insert(0, f"newer records may be missing: a sidecar may run: {may_run}")
    return _Offline(
        Reply(Member(reply.member.url, broker), answer), directory, None if may_run is None else reply.error
    )


def listing(replies: Sequence[Reply], since: datetime) -> list[str]:
    """Return the records of all members in the order of time, equal ones of several members once."""
    lines, groups = [], list[tuple[Json, list[Reply]]]()
    good = [reply for reply in replies if reply.error is None]
    for reply, record in sorted(_records(good), key=lambda each: each[1]["at"]):
        same = next((group for group in reversed(groups) if _is_same(group[0], record)), None)
        if same is None or reply in same[1]:
            groups.append((record, [reply]))
        else:
            same[1].append(reply)
    for record, owners in groups:
        lines += [f"{format_time(record['at'])}  {whom(owners)}  {_what(record)}", *_effects(record)]
    missing = [[*_missing(reply.answer or {})] for reply in good]
    if not groups:
        for words, partly in (("nothing has changed", False), ("no change is known", True)):
            found = [reply for reply, texts in zip(good, missing, strict=True) if bool(texts) is partly]
            lines += [f"{whom(found)}: {words} since {format_time(since)}"] if found else []
    for reply, texts in zip(good, missing, strict=True):
        lines += [f"{whom([reply])}: {text}" for text in texts]
    return lines


def _records(replies: Iterable[Reply]) -> Iterator[tuple[Reply, Json]]:
    for reply in replies:
        for record in printable_answer((reply.answer or {}).get("records", [])):
            yield reply, {**record, "at": datetime.fromisoformat(record["time"])}


def _is_same(one: Json, other: Json) -> bool:
    """Return True if two records tell of the same change; its author has another address at each member."""
    told = [[_what({**each, "by": None}), *_effects(each)] for each in (one, other)]
    return told[0] == told[1] and (other["at"] - one["at"]).total_seconds() <= TOGETHER_SECONDS


def _missing(answer: Any) -> Iterator[str]:
    """Yield notes on entries that are not shown, and why."""
    if answer.get("left_out"):
        yield f"{answer['left_out']} older records are left out: ask from a later --since"
    if answer.get("unreadable"):
        yield f"{answer['unreadable']} lines were cut by a crash or a full disk"
    if answer.get("not_written"):
        yield f"newer records are not on disk: {answer['not_written']}"
    yield from answer.get("problems", ())


def _what(record: Json) -> str:
    event, text = record["event"], record.get("text", "")
    by = f" by {record['by']}" if record.get("by") else ""
    if event.startswith("override_"):
        label = f" {record['label']}" if record.get("label") else ""
        until = f", until {format_time(datetime.fromisoformat(record['until']))}" if record.get("until") else ""
        why = f": {record['reason']}" if record.get("reason") else ""
        done = event.removeprefix("override_")
        return f"override {record.get('id')}{label} {done}{by}{until if done == 'set' else ''}{why}"
    if event.startswith("condition_"):
        of = ", ".join(record[key] for key in ("severity", "role") if record.get(key))
        return f"{event.removeprefix('condition_')} {record.get('name')} ({of}): {text}"
    if event == "quotas_changed":
        return f"{text} edited" + (" while no sidecar ran" if record.get("reason") == "start" else "")
    if event == "quotas_ended":
        return f"{text}: sections with `until` ended"
    return f"{_PROCESS.get(event, event)}{': ' if text else ''}{text}"


def _effects(record: Json) -> Iterator[str]:
    for effect in record.get("effects", ()):
        before, after, file = (_BYTES.sub("", effect.get(name) or "") for name in ("before", "after", "file"))
        layer = layer_name(effect.get("after_layer", ""))
        held = f"{before} -> {after}" if before != after else f"stays {after}"
        hidden = f"; {file} in quotas.toml is hidden" if file else ""
        yield f"    {key_in_place(effect['place'], effect['key'])}  {held}  ({layer}{hidden})"
    if record.get("more"):
        yield f"    and {record['more']} more"
