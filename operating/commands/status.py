"""``status``: what one or more sidecars do right now, read from their /throttle.

Asks all of them at once (`operating.status`). Invariant: a sidecar that cannot be reached is a row with
its error, never the end of the table; exit status 1 says that there was one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.live import Live

from proxy.files.reading import is_there

from ..asking import DEFAULT_URL
from ..configuration import DEFAULT_CONFIG, load_configuration, url_of
from ..status.rows import Sidecar, ask_all
from ..status.table import layout
from ..terminal import Console, encoded, held_interrupts, problems_as_json, say_json
from .options import FILE, where_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .options import Where

_REFRESH_SECONDS = 1.0


@click.command("status", short_help="Show what sidecars do right now.")
@click.option(
    "--config",
    "config_path",
    type=FILE,
    metavar="FILE",
    help="The sidecar of this configuration.  [default: proxy.toml, if it is there and nothing else is asked for]",
)
@where_options
@click.option("--json", "as_json", is_flag=True, help="Print each sidecar's own JSON, one line each, once.")
@click.option("--watch/--once", "watch", default=None, help="Refresh every second. Default: if this is a terminal.")
@click.pass_context
def command(
    ctx: click.Context, /, *, config_path: Path | None, where: Where, as_json: bool, watch: bool | None
) -> None:
    """Show quota, rate, lag and time left of each role, its connections, and the partitions furthest behind.

    Rates are bytes per second over the last 11 seconds, lag is messages between where followers fetch and their
    leaders' high watermark. ETA is the lag over the speed at which it shrinks. "of quota" is yellow above 105 %, as it
    may be with replicas in sync, with batches larger than a small quota, and until 11 seconds after a quota was
    lowered; more than that is amiss. "unthrottled beside it" is what passes that no list names or the sidecar does not
    understand; "of it in sync" counts against the quota and is never held back. "!" marks what is amiss: below the
    first table it is said, with what holds and what will change by itself.

    Of several sidecars (--url, or --fleet with a fleet.toml) the worst comes first, after the totals.

    Exit status 1 if a sidecar does not answer.

    \b
    Examples:
      throttle-sidecar status
      throttle-sidecar status --once --url http://kafka-101:9404 --url http://kafka-102:9404
      throttle-sidecar status --fleet fleet.toml --at 103 --at 117
      throttle-sidecar status --json | jq .roles.leader.rate_bytes_per_second
      throttle-sidecar verify move.json --bootstrap kafka-101:9092      is it done? (no lag is no proof)
    """
    if as_json and watch:
        raise click.UsageError("--json prints each answer once: leave out --watch")
    with problems_as_json(as_json=as_json):
        asked = _asked(config_path, where)
    console = Console()
    if not as_json and (watch or (watch is None and console.is_terminal)):
        _watch(asked, console)
        return
    answers = ask_all(asked)
    if as_json:
        for answer in answers:
            say_json(answer.content or encoded({"url": answer.url, "error": answer.error}))
    else:
        console.print(layout(answers, datetime.now(UTC), width=console.width))
    if any(answer.error is not None for answer in answers):
        ctx.exit(1)


def _asked(config: Path | None, where: Where) -> list[Sidecar]:
    found = [Sidecar(each.url, broker=each.broker) for each in where.members()] if any(where) else []
    if config is None and not found and is_there(DEFAULT_CONFIG):
        config = DEFAULT_CONFIG
    if config is not None:
        settings = load_configuration(config)
        found.append(Sidecar(url_of(settings.http), broker=settings.broker.id))
    return found or [Sidecar(DEFAULT_URL)]


def _watch(sidecars: Sequence[Sidecar], console: Console) -> None:
    """Until Ctrl-C; the last table stays on the screen."""
    with held_interrupts() as interrupted, Live(console=console, auto_refresh=False) as live:
        while True:
            height = console.height if len(sidecars) > 1 else None
            shown = layout(ask_all(sidecars), datetime.now(UTC), width=console.width, height=height)
            live.update(shown, refresh=True)
            if interrupted(_REFRESH_SECONDS):
                return
