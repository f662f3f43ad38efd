"""``set``: changes one key of quotas.toml, safely, and says how to take it back.

Reads arguments and prints; the edit is `proxy.quotas.editing`, the file's replacement `proxy.file_replacement`.
Invariant: what ``check`` would refuse is never written.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..errors import ConfigurationError, InvalidValueError
from ..file_reading import read_bytes
from ..file_replacement import edit_file
from ..quotas import hash_of, parse_quotas
from ..quotas.editing import Assign, End, Remove, edit
from ..settings import load_settings
from .completing import DEFAULT_CONFIG, complete_broker, complete_key, complete_topic
from .confirming import confirm
from .health import url_of
from .quota_change import Told, parse_place, parse_span, parse_value
from .quota_words import parse_moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..quotas.editing import Wish

_T = TypeVar("_T")


@click.command("set", short_help="Change a quota now, for good or for a time.")
@click.argument("key", metavar="KEY", shell_complete=complete_key)
@click.argument("text", metavar="[VALUE]", required=False)
@click.option(
    "--broker",
    metavar="N",
    shell_complete=complete_broker,
    help="Of this broker. Without it and --topic: of every broker without its own.",
)
@click.option(
    "--topic",
    metavar="NAME",
    shell_complete=complete_topic,
    help="Of this topic, or of a glob like 'clicks-*'. For lists of replicas.",
)
@click.option("--for", "span", metavar="TIME", help="Hold for so long (2h, 90m, 1d12h), then what held before again.")
@click.option("--until", metavar="TIME", help="The same, with the end as a time: 2026-12-01T06:00:00Z.")
@click.option("--remove", is_flag=True, help="Take the key out of the file: the undo of one that was not there.")
@click.option("--end", is_flag=True, help="End now what --for or --until began.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, as a diff too; write nothing.")
@click.option(
    "--quotas", "quotas_path", type=click.Path(path_type=Path), metavar="FILE", help="The quotas file itself."
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration that names it.  [default: proxy.toml, if there is no --quotas]",
)
@click.option(
    "--url", "urls", multiple=True, help="Wait until this sidecar has it. Default: the one of the configuration."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    key: str,
    text: str | None,
    broker: str | None,
    topic: str | None,
    span: str | None,
    until: str | None,
    remove: bool,
    end: bool,
    dry_run: bool,
    quotas_path: Path | None,
    config_path: Path | None,
    urls: tuple[str, ...],
) -> None:
    """Change one KEY of quotas.toml; a running sidecar follows within 250 ms.

    \b
    KEY                                        VALUE
    leader.replication.throttled.rate          50MiB/s, 50MB/s, 52428800 (bytes per second), unlimited,
    follower.replication.throttled.rate          0 (stops catch-up)
    leader.replication.throttled.replicas      '*', or with --topic: 0:101,1:101 (partition:broker), or ''
    follower.replication.throttled.replicas      (exempts)
    mode.enforce                               true, false (observe only)

    The file is replaced as a whole, comments and order stay. It prints what was, what is now, what that means for the
    broker, and the command that takes it back; then it waits until the sidecar has the file. What check refuses is not
    written. Exit status 1 if nothing could be written, or if a sidecar that answers does not take it.

    \b
    Examples:
      throttle-sidecar set leader.replication.throttled.rate 50MiB/s
      throttle-sidecar set leader.replication.throttled.rate 20MiB/s --broker 101 --for 2h
      throttle-sidecar set follower.replication.throttled.replicas '*' --topic 'clicks-*'
      throttle-sidecar set mode.enforce false --for 30m         throttle nothing for half an hour
      throttle-sidecar set leader.replication.throttled.rate --broker 101 --remove
      throttle-sidecar set follower.replication.throttled.rate 5MB/s --dry-run
    """
    now = datetime.now(UTC).replace(microsecond=0)
    wish = _wish(key, text, _ends(span, until, now), remove=remove, end=end)
    place = _or_refused(lambda: parse_place(key, broker, topic))
    target = _target(quotas_path, config_path, broker, urls)

    def change(before: bytes) -> tuple[bytes, Told]:
        edited = edit(before, place, wish, source=str(target.quotas))
        parse_quotas(edited.content, source=str(target.quotas))
        return edited.content, Told(place, before, edited, target.broker_id, now)

    _, told = change(read_bytes(target.quotas)) if dry_run else edit_file(target.quotas, change)
    click.echo("\n".join(told.lines(str(target.quotas))))
    if not told.changes_something:
        return
    if dry_run:
        click.echo(f"\n{_diff(told, target.quotas)}\ndry run: nothing is written")
        return
    click.echo(f"undo: {told.undo(target.where)}")
    _confirm(ctx, target, told)


@dataclass(frozen=True, slots=True)
class _Target:
    """Which file, whose quotas to show, whom to ask; `where`: the options that say so."""

    quotas: Path
    broker_id: int | None
    urls: tuple[str, ...]
    where: tuple[str, ...]


def _wish(key: str, text: str | None, until: datetime | None, *, remove: bool, end: bool) -> Wish:
    if remove or end:
        if text is not None or until is not None or remove == end:
            raise click.UsageError("--remove and --end stand alone, without a VALUE, a time or each other")
        return Remove() if remove else End()
    if text is None:
        raise click.UsageError("Missing VALUE (or --remove, or --end).")
    return Assign(parse_value(key, text), until)


def _ends(span: str | None, until: str | None, now: datetime) -> datetime | None:
    if span is not None and until is not None:
        raise click.UsageError("--for and --until say the same: give one of them")
    if span is not None:
        return now + _or_refused(lambda: parse_span(span), "--for")
    if until is None:
        return None
    moment = _or_refused(lambda: parse_moment(until), "--until").astimezone(UTC)
    if moment <= now:
        raise ConfigurationError(f"--until: expected a time to come, found {until} (it is {now:%Y-%m-%dT%H:%M:%SZ})")
    return moment


def _or_refused(parse: Callable[[], _T], option: str | None = None) -> _T:
    try:
        return parse()
    except InvalidValueError as error:
        raise ConfigurationError(f"{option}: {error}" if option else str(error)) from error


def _target(quotas: Path | None, config: Path | None, broker: str | None, urls: tuple[str, ...]) -> _Target:
    """The configuration says what the options do not."""
    asked = tuple(f"--url={url}" for url in urls)
    if quotas is not None and config is None:
        broker_id = int(broker) if broker is not None and broker.isdecimal() else None
        return _Target(quotas, broker_id, urls, ("--quotas", str(quotas), *asked))
    settings = load_settings(config or DEFAULT_CONFIG, (), os.environ)
    where = () if config is None else ("--config", str(config))
    if quotas is not None:
        where = (*where, "--quotas", str(quotas))
    found = urls or (url_of(settings.http.listen),)
    return _Target(quotas or settings.quotas.file, settings.broker.id, found, (*where, *asked))


def _diff(told: Told, path: Path) -> str:
    before, after = (content.decode().splitlines() for content in (told.before, told.edit.content))
    return "\n".join(difflib.unified_diff(before, after, str(path), str(path), lineterm=""))


def _confirm(ctx: click.Context, target: _Target, told: Told) -> None:
    if not target.urls:
        click.echo("not asked whether it is in force: give the sidecar's --url, or --config instead of --quotas")
    answers = list(confirm(target.urls, hash_of(told.edit.content)))
    for good, line in answers:
        click.echo(line, err=not good)
    if not all(good for good, _ in answers):
        ctx.exit(1)
