"""``status``: shows the present traffic of one or more sidecars, read from their /throttle.

Asks all of them at once (`operating.status`). Invariant: a sidecar that cannot be reached is a row with
its error, never the end of the table; exit status 1 says that there was an error.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.live import Live

from proxy.files.reading import is_there

from ..asking import DEFAULT_URL
from ..configuration import DEFAULT_CONFIG, load_configuration, url_of
from ..fleet.members import Member, private_urls
from ..status.rows import ask_all, is_wrong
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
    help="The sidecar of this proxy.toml.  [default: proxy.toml, or else the sidecar on this host]",
)
@where_options
@click.option("--json", "as_json", is_flag=True, help="Print each sidecar's JSON once, one line each.")
@click.option(
    "--watch/--once",
    "watch",
    default=None,
    help="Refresh every second, or print once.  [default: --watch on a terminal]",
)
@click.pass_context
def command(
    ctx: click.Context, /, *, config_path: Path | None, where: Where, as_json: bool, watch: bool | None
) -> None:
    """Show quota, rate, lag and time left of each role, its connections, and the partitions furthest behind.

    \b
      rate              bytes per second over the last 11 seconds
      of quota          yellow above 105 %: normal with replicas in sync, with batches larger than a small
                        quota, and for 11 s after the quota was lowered
      unthrottled rate  on no list, or not decodable; not part of the rate
      lag, ETA          messages behind the leader's high watermark; lag over the speed at which it shrinks
      in-sync rate      part of the rate: counted, never held back
      left out          partitions left out of fetches because the quota was used up, since the start
      fetches held      requests that wait in the sidecar now
      !                 a warning below the table says why

    Of several sidecars the worst comes first, after the totals. Exit status 1 if one does not answer, is too old to
    say what is wrong, or if something is wrong with one (docs/runbooks.md has what to do).

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
            say_json(answer.content or encoded({"url": answer.member.url, "error": answer.error}))
    else:
        console.print(layout(answers, datetime.now(UTC), width=console.width))
    if any(answer.page is None or is_wrong(answer.page) for answer in answers):
        ctx.exit(1)


def _asked(config: Path | None, where: Where) -> list[Member]:
    found = where.members() if any(where) else []
    if config is None and not found and is_there(DEFAULT_CONFIG):
        config = DEFAULT_CONFIG
    if config is not None:
        settings = load_configuration(config)
        found.append(Member(url_of(settings.http), settings.broker.id))
    private = private_urls()
    return found or [Member(private[0] if len(private) == 1 else DEFAULT_URL)]


def _watch(members: Sequence[Member], console: Console) -> None:
    """Refresh the table until Ctrl-C; the last stays on the screen."""
    with held_interrupts() as interrupted, Live(console=console, auto_refresh=False) as live:
        while True:
            height = console.height if len(members) > 1 else None
            shown = layout(ask_all(members), datetime.now(UTC), width=console.width, height=height)
            live.update(shown, refresh=True)
            if interrupted(_REFRESH_SECONDS):
                return
