"""``status``: what one or more sidecars do right now, read from their /throttle.

Asks all of them at once; `status_table` lays the answers out. Invariant: a sidecar that cannot be reached is a row with
its error, never the end of the table; exit status 1 says that there was one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.live import Live

from proxy.errors import UnreachableError
from proxy.files.reading import is_there

from ..asking import DEFAULT_URL
from ..configuration import DEFAULT_CONFIG, load_configuration
from ..fleet.file import load_fleet
from ..terminal import Console, encoded, problems_as_json, say_json
from .health import url_of
from .interruption import held_interrupts
from .options import FILE, SIDECAR_URL, fleet_option
from .page import decode, fetch
from .status_table import Filter, Sidecar, Sort, layout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_REFRESH_SECONDS = 1.0
_MOST_AT_ONCE = 64
_ROLES = ("leader", "follower")


@click.command("status", short_help="Show what sidecars do right now.")
@click.option(
    "--url", "urls", type=SIDECAR_URL, multiple=True, help=f"A sidecar; may be repeated.  [default: {DEFAULT_URL}]"
)
@click.option(
    "--config",
    "config_path",
    type=FILE,
    metavar="FILE",
    help="The sidecar of this configuration.  [default: proxy.toml, if it is there and nothing else is asked for]",
)
@fleet_option
@click.option("--broker", "brokers", multiple=True, type=click.IntRange(min=0), help="Only of this broker; repeatable.")
@click.option("--role", "roles", multiple=True, type=click.Choice(_ROLES), help="Only this role.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="Only what is behind of this topic, or glob; repeatable."
)
@click.option(
    "--sort", type=click.Choice([each.value for each in Sort]), default=Sort.WORST.value, show_default=True,
    help="What comes first: what is amiss and what is furthest behind, or this column.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print each sidecar's own JSON, one line each, once.")
@click.option("--watch/--once", "watch", default=None, help="Refresh every second. Default: if this is a terminal.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    urls: tuple[str, ...],
    config_path: Path | None,
    fleet_path: Path | None,
    brokers: tuple[int, ...],
    roles: tuple[str, ...],
    topics: tuple[str, ...],
    sort: str,
    as_json: bool,
    watch: bool | None,
) -> None:
    """Show quota, rate, lag and time left of each role, its connections, and the partitions furthest behind.

    Rates are bytes per second over the last 11 seconds, lag is messages between where followers fetch and their
    leaders' high watermark. ETA is the lag over the speed at which it shrinks. "of quota" is yellow above 105 %, as it
    may be with replicas in sync, with batches larger than a small quota, and until 11 seconds after a quota was
    lowered; more than that is amiss. "unthrottled beside it" is what passes that no list names or the sidecar does not
    understand; "of it in sync" counts against the quota and is never held back. "!" marks what is amiss: below the
    first table it is said, with what holds and what will change by itself.

    Of several sidecars (--url, or --fleet with a fleet.toml) the worst comes first, after the totals. --topic looks at
    the 20 partitions furthest behind that each role tells of.

    Exit status 1 if a sidecar does not answer.

    \b
    Examples:
      throttle-sidecar status
      throttle-sidecar status --once --url http://kafka-101:9404 --url http://kafka-102:9404
      throttle-sidecar status --fleet fleet.toml --role follower --sort eta
      throttle-sidecar status --fleet fleet.toml --topic 'orders*'
      throttle-sidecar status --json | jq .roles.leader.rate_bytes_per_second
      throttle-sidecar verify move.json --bootstrap kafka-101:9092      is it done? (no lag is no proof)
    """
    if as_json:
        _refuse_what_is_of_the_table(roles, topics, watch=watch)
    which = Filter(frozenset(roles), frozenset(brokers), topics)
    with problems_as_json(as_json=as_json):
        asked = [each for each in _asked(urls, config_path, fleet_path) if which.has_sidecar(each)]
    if not asked:
        raise click.UsageError(
            f"--broker {brokers[0]}: {fleet_path or config_path or DEFAULT_CONFIG} has no such broker"
        )
    console = Console()
    if as_json:
        answers = _ask(asked)
        for answer in answers:
            if answer.page is None or which.has_sidecar(answer):
                say_json(answer.content or encoded({"url": answer.url, "error": answer.error}))
    elif watch or (watch is None and console.is_terminal):
        _watch(asked, console, which, Sort(sort))
        return
    else:
        answers = _ask(asked)
        console.print(layout(answers, datetime.now(UTC), width=console.width, which=which, sort=Sort(sort)))
    if any(answer.error is not None for answer in answers):
        ctx.exit(1)


def _refuse_what_is_of_the_table(roles: Sequence[str], topics: Sequence[str], *, watch: bool | None) -> None:
    if roles or topics:
        raise click.UsageError("--role and --topic choose rows of the table: with --json use jq")
    if watch:
        raise click.UsageError("--json prints each answer once: leave out --watch")


def _asked(urls: Sequence[str], config: Path | None, fleet: Path | None) -> list[Sidecar]:
    """Whom to ask. Raises ConfigurationError."""
    found = [] if fleet is None else [Sidecar(each.url, broker=each.broker) for each in load_fleet(fleet).members]
    found += [Sidecar(url) for url in urls]
    if config is None and not found and is_there(DEFAULT_CONFIG):
        config = DEFAULT_CONFIG
    if config is not None:
        settings = load_configuration(config)
        found.append(Sidecar(url_of(settings.http), broker=settings.broker.id))
    return found or [Sidecar(DEFAULT_URL)]


def _ask(sidecars: Sequence[Sidecar]) -> list[Sidecar]:
    """All at once: one that does not answer costs its time-out, not the others'."""
    with ThreadPoolExecutor(min(len(sidecars), _MOST_AT_ONCE)) as threads:
        return list(threads.map(_ask_one, sidecars))


def _ask_one(asked: Sidecar) -> Sidecar:
    try:
        content = fetch(asked.url)
        page = decode(asked.url, content)
    except UnreachableError as error:
        return asked._replace(error=str(error))
    if asked.broker is not None and page.broker != asked.broker:
        return asked._replace(error=f"{asked.url}: is the sidecar of broker {page.broker}, not of {asked.broker}")
    return asked._replace(content=content, page=page)


def _watch(sidecars: Sequence[Sidecar], console: Console, which: Filter, sort: Sort) -> None:
    """Until Ctrl-C; the last table stays on the screen."""
    with held_interrupts() as interrupted, Live(console=console, auto_refresh=False) as live:
        while True:
            height = console.height if len(sidecars) > 1 else None
            shown = layout(
                _ask(sidecars), datetime.now(UTC), width=console.width, height=height, which=which, sort=sort
            )
            live.update(shown, refresh=True)
            if interrupted(_REFRESH_SECONDS):
                return
