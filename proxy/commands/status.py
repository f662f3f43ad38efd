"""``status``: what one or more sidecars do right now, read from their /throttle.

Asks all of them at once; `status_table` lays the answers out. Invariant: a sidecar that cannot be reached is a row with
its error, never the end of the table; exit status 1 says that there was one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.live import Live

from ..asking import DEFAULT_URL
from ..errors import UnreachableError
from .interruption import held_interrupts
from .page import decode, fetch
from .status_table import Sidecar, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

_REFRESH_SECONDS = 1.0
_PLAIN_WIDTH = 180
_MOST_AT_ONCE = 32


@click.command("status", short_help="Show what sidecars do right now.")
@click.option(
    "--url",
    "urls",
    multiple=True,
    default=(DEFAULT_URL,),
    show_default=True,
    help="A sidecar; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each sidecar's own JSON, one line each, once.")
@click.option("--watch/--once", "watch", default=None, help="Refresh every second. Default: if this is a terminal.")
@click.pass_context
def command(ctx: click.Context, /, *, urls: tuple[str, ...], as_json: bool, watch: bool | None) -> None:
    """Show quota, rate, lag and time left of each role, its connections, and the partitions furthest behind.

    Rates are bytes per second over the last 11 seconds, lag is messages between where followers fetch and their
    leaders' high watermark. ETA is the lag over the speed at which it shrinks. "of quota" is red above the 105 % that
    are promised. Below the first table: what is amiss, what holds, and what will change by itself.

    Exit status 1 if a sidecar does not answer.

    \b
    Examples:
      throttle-sidecar status
      throttle-sidecar status --once --url http://kafka-101:9404 --url http://kafka-102:9404
      throttle-sidecar status --json | jq .roles.leader.rate_bytes_per_second
      throttle-sidecar status --json | jq -e '.roles.follower.lag_messages == 0'      is it done?
    """
    console = Console()
    if as_json:
        answers = _ask(urls)
        for answer in answers:
            click.echo(answer.content or msgspec.json.encode({"url": answer.url, "error": answer.error}))
    elif watch or (watch is None and console.is_terminal):
        _watch(urls, console)
        return
    else:
        answers = _ask(urls)
        # Into a file or a pipe: a column cut to the default 80 characters would be lost.
        shown_on = console if console.is_terminal else Console(width=_PLAIN_WIDTH)
        shown_on.print(layout(answers, datetime.now(UTC), width=shown_on.width))
    if any(answer.error is not None for answer in answers):
        ctx.exit(1)


def _ask(urls: Sequence[str]) -> list[Sidecar]:
    """All at once: one that does not answer costs its time-out, not the others'."""
    with ThreadPoolExecutor(min(len(urls), _MOST_AT_ONCE)) as threads:
        return list(threads.map(_ask_one, urls))


def _ask_one(url: str) -> Sidecar:
    try:
        content = fetch(url)
        return Sidecar(url, content, decode(url, content))
    except UnreachableError as error:
        return Sidecar(url, error=str(error))


def _watch(urls: Sequence[str], console: Console) -> None:
    """Until Ctrl-C; the last table stays on the screen."""
    with held_interrupts() as interrupted, Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(layout(_ask(urls), datetime.now(UTC), width=console.width), refresh=True)
            if interrupted(_REFRESH_SECONDS):
                return
