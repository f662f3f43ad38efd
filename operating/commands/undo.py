"""``undo``: removes overrides; whatever they hid counts again."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from proxy.control.override_routes import UNDO_PATH

from ..overriding.members import at_all, author, post
from ..overriding.words import result_lines
from ..terminal import encoded, problems_as_json, say, say_json
from .options import json_option, where_options

if TYPE_CHECKING:
    from ..overriding.members import Reply
    from .options import Where


@click.command("undo", short_help="Take back what set or plan --apply did.")
@click.argument("override", metavar="[ID]", required=False)
@click.option("--label", metavar="TEXT", help="All overrides with this label.")
@click.option("--last", is_flag=True, help="The one that was made last at each sidecar.")
@where_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    override: str | None,
    label: str | None,
    last: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Remove the override with this ID, those with a label, or the last one.

    What it hid in quotas.toml or in an older override counts again, whatever was changed in between. A sidecar that has
    no such override is named and is no failure, as long as one had it. Exit status 1 if a sidecar does not answer or
    refuses, or if none had it.

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
    failed = [reply for reply in replies if reply.error is not None and not (undone and _had_none(reply))]
    late = [reply for reply in undone if not (reply.answer or {}).get("in_force")]
    if as_json:
        told = [{"url": each.member.url, "error": each.error, **(each.answer or {})} for each in replies]
        say_json(encoded({"sidecars": told}))
    else:
        say("\n".join(result_lines(replies, datetime.now(UTC))))
    if failed or late:
        ctx.exit(1)


def _had_none(reply: Reply) -> bool:
    return reply.refused and (reply.error or "").startswith("no override")
