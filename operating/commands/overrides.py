"""``overrides`` lists the settings above quotas.toml, at one or more sidecars, and where members differ; ``undo``
removes overrides, so that whatever they hid counts again."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from proxy.control.override_routes import PATH, UNDO_PATH

from ..fleet.members import at_all, author, get, post
from ..fleet.replies import alike, error_lines, had_none, key_in_place, layer_name, result_lines, whom
from ..quota_words import format_distance, format_time
from ..status.rows import ask_all
from ..status.words import waiting_lines
from ..terminal import encoded, problems_as_json, say, say_json
from .options import json_option, where_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..fleet.members import Reply
    from .options import Where


Json = dict[str, Any]


@click.command("overrides", short_help="List what set and plan --apply changed.")
@where_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    where: Where,
    as_json: bool,
) -> None:
    """List overrides, the newest last, with author, reason, end, and the value that each change hides.

    With --fleet an override is listed once, with the brokers that have it and those that lack it, and its changes once
    for those where the same holds. Exit status 1 if a sidecar does not answer.

    \b
    Examples:
      throttle-sidecar overrides
      throttle-sidecar overrides --fleet fleet.toml --json
    """
    with problems_as_json(as_json=as_json):
        found = where.members()
    replies = at_all(found, partial(get, page=PATH))
    if as_json:
        told = [{"url": each.member.url, "error": each.error, **(each.answer or {})} for each in replies]
        say_json(encoded({"sidecars": told}))
    else:
        say("\n".join([*listing(replies, datetime.now(UTC)), *error_lines(replies)]))
    if any(reply.error is not None for reply in replies):
        ctx.exit(1)


def listing(replies: Sequence[Reply], now: datetime) -> list[str]:
    """Return each override once, with who has it and who lacks it."""
    good = [reply for reply in replies if reply.error is None]
    have: dict[str, list[tuple[Reply, Json]]] = {}
    for reply in good:
        for override in (reply.answer or {}).get("overrides", []):
            have.setdefault(override["id"], []).append((reply, override))
    lines = [f"{whom([reply])}: {reply.answer['problem']}" for reply in good if (reply.answer or {}).get("problem")]  # type: ignore[index]
    for owners in sorted(have.values(), key=lambda owners: str(owners[0][1]["since"])):
        told = {id(reply): _changes(override) for reply, override in owners}
        groups = alike([reply for reply, _ in owners], lambda each: told[id(each)])  # noqa: B023 - used at once
        lines += _override(owners[0][1], now)
        for group in groups:
            lines += [*([f"  {whom(group)}:"] if len(groups) > 1 else []), *told[id(group[0])]]
        owning = [owner for owner, _ in owners]
        lacking = [reply for reply in good if reply not in owning]
        lines.append(f"  at   {whom(owning)}" + (f"; not at {whom(lacking)}" if lacking else ""))
    if not have and good:
        lines.append(f"{whom(good)}: no overrides: quotas.toml holds")
    return lines


def _override(override: Json, now: datetime) -> Iterator[str]:
    label = "" if override["label"] is None else f"  {override['label']}"
    since, until = datetime.fromisoformat(override["since"]), override["until"]
    ends = "no end"
    if until is not None:
        end = datetime.fromisoformat(until)
        ends = f"ends {format_time(end)} ({format_distance(end, now)})"
    yield f"{override['id']}{label}"
    yield f"  by   {override['by']}, {format_time(since)}; {ends}"
    if override["reason"]:
        yield f"  why  {override['reason']}"


def _changes(override: Json) -> tuple[str, ...]:
    """Return a line for each change, as the sidecar that answered has it."""
    lines = []
    for change in override["changes"]:
        name = key_in_place(change["place"], change["key"])
        below = change["hides"]
        hides = "" if below is None else f"  (hides {below['value']}, {layer_name(below['layer'])})"
        covered = "" if change["effective"] else "  NOT EFFECTIVE: hidden by a newer override"
        lines.append(f"  {name} = {change['says']}{hides}{covered}")
    return tuple(lines)


@click.command("undo", short_help="Revert what set or plan --apply changed.")
@click.argument("override", metavar="[ID]", required=False)
@click.option("--label", metavar="TEXT", help="All overrides with this label.")
@click.option("--last", is_flag=True, help="The newest at each sidecar, which may differ over a --fleet.")
@where_options
@json_option
@click.pass_context
def undo(
    ctx: click.Context,
    /,
    *,
    override: str | None,
    label: str | None,
    last: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Remove the override with this ID, those with a label, or the newest.

    The values it hid in quotas.toml or in an older override count again at once. Exit status 1 if a sidecar does not
    answer or refuses, or if none has such an override.

    \b
    Examples:
      throttle-sidecar undo 7f3a12
      throttle-sidecar undo --label move-orders --fleet fleet.toml
      throttle-sidecar undo --last
    """
    if (override is not None) + (label is not None) + last != 1:
        raise click.UsageError("expected an ID, --label or --last, and one of them alone")
    with problems_as_json(as_json=as_json):
        found = where.members()
    selector: dict[str, Any] = {"id": override, "label": label, "last": last, "by": author()}
    replies = at_all(found, partial(post, page=UNDO_PATH, body=selector))
    undone = [reply for reply in replies if reply.error is None]
    failed = [reply for reply in replies if reply.error is not None and not (undone and had_none(reply))]
    answers = [reply.answer or {} for reply in undone]
    incomplete = any(not answer.get("in_force") or answer.get("not_stored") for answer in answers)
    if as_json:
        told = [{"url": each.member.url, "error": each.error, **(each.answer or {})} for each in replies]
        say_json(encoded({"sidecars": told}))
    else:
        say("\n".join([*result_lines(replies, datetime.now(UTC)), *still_waiting(replies)]))
    if failed or incomplete:
        ctx.exit(1)


def still_waiting(replies: Sequence[Reply]) -> list[str]:
    """Return which clients wait after a change, where it was made."""
    asked = ask_all([reply.member for reply in replies if reply.error is None])
    return list(waiting_lines(each.page for each in asked if each.page is not None))
