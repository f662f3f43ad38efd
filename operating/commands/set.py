"""``set``: changes keys of quotas.toml, safely, and says what then holds and how to take it back.

Reads arguments and prints; what a change does is worked out in `operating.editing.changing`, the file is replaced by
`proxy.files.replacement`. Invariant: what ``check`` would refuse is never written, nor what would not hold.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.reading import read_bytes
from proxy.files.replacement import edit_file
from proxy.quotas import RATE_KEYS, parse_span
from proxy.quotas.rate_reading import parse_rate_or_source

from ..configuration import DEFAULT_CONFIG, load_configuration
from ..editing.changing import QuotaChange, ShadowedError, change
from ..editing.editing import Assign, End, Remove
from ..editing.quota_change import DEFAULT_BROKER, Whose, asks, parse_pairs, parse_value
from ..quota_words import parse_moment
from ..terminal import encoded, say, say_json
from . import fleet_set
from .change_words import Told, refusal_json, refusal_lines
from .completing import complete_broker, complete_key, complete_peer, complete_rack, complete_topic
from .confirming import confirm
from .deadline import refuse_past
from .fleet_set import FleetSet
from .health import url_of
from .options import FILE, SIDECAR_URL, fleet_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.quotas.rate_source import Deadline

    from ..editing.asks import Ask
    from ..editing.editing import Wish
    from ..editing.quota_change import Pair
    from .confirming import Confirmation

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Typed:
    """The options that say what shall be so."""

    key: str
    text: str | None
    brokers: tuple[str, ...]
    topic: str | None
    peer: str | None
    rack: str | None
    span: str | None
    until: str | None
    remove: bool
    end: bool
    finish_by: str | None
    within: str | None
    timezone: str | None
    least: str | None
    most: str | None

    def table(self) -> dict[str, Any]:
        """Of a rate that sets itself; empty: none is asked for."""
        found = {
            "finish_by": self.finish_by,
            "within": self.within,
            "timezone": self.timezone,
            "min": self.least,
            "max": self.most,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Target:
    """Which file, which broker is known to read it, whom to ask; `where`: the options that say so."""

    quotas: Path
    broker_id: int | None
    urls: tuple[str, ...]
    where: tuple[str, ...]


@click.command("set", short_help="Change a quota now, for good or for a time.")
@click.argument("key", metavar="KEY", shell_complete=complete_key)
@click.argument("text", metavar="[VALUE]", required=False)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="N",
    shell_complete=complete_broker,
    help="Change this broker's value; may be repeated. 'default' changes the default section alone. Without --broker, "
    "--topic, --peer and --rack, every broker is meant.",
)
@click.option(
    "--topic",
    metavar="NAME",
    shell_complete=complete_topic,
    help="Of this topic, or of a glob like 'clicks-*': its list of replicas, or a rate of its own inside the broker's.",
)
@click.option(
    "--peer",
    metavar="N",
    shell_complete=complete_peer,
    help="A rate for the broker's traffic with broker N, inside the broker's own rate.",
)
@click.option(
    "--rack",
    metavar="NAME",
    shell_complete=complete_rack,
    help="The same: of its traffic with all brokers of this rack (broker.rack).",
)
@fleet_option
@click.option(
    "--at",
    "at",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="With --fleet: only where this broker's quotas are kept; repeatable.",
)
@click.option(
    "--for",
    "span",
    metavar="TIME",
    help="The value holds for this long (2h, 90m, 1d12h); then what held before holds again.",
)
@click.option("--until", metavar="TIME", help="The same, with the end as a time: 2026-12-01T06:00:00Z.")
@click.option("--finish-by", metavar="TIME", help="A rate that ends catch-up by then: 06:00, or 2026-12-01T06:00:00Z.")
@click.option("--within", metavar="TIME", help="The same, so long from now: 2h, 90m, 1d12h.")
@click.option("--timezone", metavar="ZONE", help="Of --finish-by, like Europe/Berlin. Default: UTC.")
@click.option("--max", "most", metavar="RATE", help="The most that a rate which sets itself may be.")
@click.option("--min", "least", metavar="RATE", help="The least that it may be. Default: 64KiB/s.")
@click.option("--remove", is_flag=True, help="Take the key out of the file: the undo of one that was not there.")
@click.option("--end", is_flag=True, help="End now what --for or --until began.")
@click.option("--later", is_flag=True, help="Write it also if a schedule goes first now, for when that is over.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, as a diff too; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quotas", "quotas_path", type=FILE, metavar="FILE", help="The quotas file itself.")
@click.option(
    "--config",
    "config_path",
    type=FILE,
    metavar="FILE",
    help="The configuration that names it.  [default: proxy.toml, if there is no --quotas]",
)
@click.option(
    "--url",
    "urls",
    type=SIDECAR_URL,
    multiple=True,
    help="Wait until this sidecar has it. Default: the one of the configuration.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    quotas_path: Path | None,
    config_path: Path | None,
    urls: tuple[str, ...],
    fleet_path: Path | None,
    at: tuple[int, ...],
    **words: Any,
) -> None:
    """Change a KEY of quotas.toml; a running sidecar follows within 250 ms.

    \b
    KEY                                        VALUE
    leader.replication.throttled.rate          50MiB/s, 50MB/s, 52428800 (bytes per second), unlimited,
    follower.replication.throttled.rate          0 (stops catch-up)
    leader.replication.throttled.replicas      '*', or with --topic: 0:101,1:101 (partition:broker), or ''
    follower.replication.throttled.replicas      (exempts)
    mode.enforce                               true, false (observe only)

    A rate may set itself: --finish-by or --within with --max, or as VALUE '{ finish_by = "06:00", max = "300MiB/s" }'.

    With --peer, --rack or --topic a rate is one inside the broker's rate: both hold, and what one leaves others have.

    Or KEY=VALUE[,KEY=VALUE] as kafka-configs takes it, lists in brackets.

    The newest word wins: a value also replaces what --for has set before. Where another section would go first all the
    same (a broker's own before the default, a schedule by the clock), nothing is written; it is named, with the command
    that does it. The file is replaced as a whole, comments and order stay, schedules that are over are taken out. It
    prints what was, what is now, what every broker concerned meets before and after, and the command that takes it
    back; then it waits until the sidecar has that in force.
    With --fleet the same at every sidecar that a fleet.toml lists, at all of them or at none.

    Exit status 0: no sidecar that answers lacks it (or none was asked), or --dry-run found nothing wrong. 1: nothing
    could be written, or a sidecar that answers does not have it in force. 2: usage.

    \b
    Examples:
      throttle-sidecar set leader.replication.throttled.rate 50MiB/s
      throttle-sidecar set leader.replication.throttled.rate 20MiB/s --broker 101 --for 2h
      throttle-sidecar set leader.replication.throttled.rate --finish-by 06:00 --max 300MiB/s
      throttle-sidecar set follower.replication.throttled.replicas '*' --topic 'clicks-*'
      throttle-sidecar set leader.replication.throttled.rate 10MiB/s --peer 102
      throttle-sidecar set leader.replication.throttled.rate 25MiB/s --rack eu-1b --for 2h
      throttle-sidecar set leader.replication.throttled.rate --topic orders --remove
      throttle-sidecar set mode.enforce false --for 30m         throttle nothing for half an hour
      throttle-sidecar set follower.replication.throttled.rate 20MiB/s --fleet fleet.toml --for 2h
    """
    how = {name: words.pop(name) for name in ("later", "dry_run", "as_json")}
    typed, now = _Typed(**words), datetime.now(UTC).replace(microsecond=0)
    if fleet_path is not None:
        if quotas_path is not None or config_path is not None or urls:
            raise click.UsageError("--fleet says where everything is: leave out --quotas, --config and --url")
        wanted = FleetSet(fleet_path, _asked(typed, now), at, now, **how)
        fleet_set.run(ctx, wanted)
    elif at:
        raise click.UsageError("--at chooses among the sidecars of a --fleet")
    else:
        _set(ctx, typed, now, (quotas_path, config_path, urls), **how)


def _set(
    ctx: click.Context,
    typed: _Typed,
    now: datetime,
    named: tuple[Path | None, Path | None, tuple[str, ...]],
    *,
    later: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Of one file. `named`: --quotas, --config and --url."""
    quotas_path, config_path, urls = named
    source: str | None = None if quotas_path is None else str(quotas_path)
    where: tuple[str, ...] = ()
    try:
        asked = _asked(typed, now)
        target = _target(quotas_path, config_path, typed.brokers, urls)
        source, where = str(target.quotas), target.where
        told = _change(target, asked, now, later=later, dry_run=dry_run)
    except ConfigurationError as error:
        if as_json:
            say_json(encoded(refusal_json(error, source, where)))
        if isinstance(error, ShadowedError):
            raise ConfigurationError(refusal_lines(error, where)) from error
        raise
    _tell(ctx, target, told, dry_run=dry_run, as_json=as_json)


def _asked(typed: _Typed, now: datetime) -> list[Ask]:
    pairs = _or_refused(lambda: parse_pairs(typed.key, typed.text))
    until = _ends(typed.span, typed.until, now)
    return [
        ask
        for pair in pairs
        for ask in _or_refused(
            lambda pair=pair: asks(  # type: ignore[misc]
                pair.key,
                _wish(pair, typed, until, now),
                Whose(typed.brokers, typed.peer, typed.rack, typed.topic),
            )
        )
    ]


def _wish(pair: Pair, typed: _Typed, until: datetime | None, now: datetime) -> Wish:
    table = typed.table()
    if typed.remove or typed.end:
        if pair.text is not None or until is not None or table or typed.remove == typed.end:
            raise click.UsageError("--remove and --end stand alone, without a VALUE, a time or each other")
        return Remove() if typed.remove else End()
    if table:
        if pair.text is not None or pair.key not in RATE_KEYS:
            options = "--finish-by, --within, --timezone, --min and --max"
            raise click.UsageError(f"{options} are in place of the VALUE of a rate")
        refuse_past(_deadline(typed), typed.finish_by, now)
        return Assign(table, until)
    if pair.text is None:
        raise click.UsageError("Missing VALUE (or --finish-by, --within, --remove, --end).")
    return Assign(parse_value(pair.key, pair.text), until)


def _deadline(typed: _Typed) -> Deadline | None:
    """Of the options. One of a VALUE may have passed: it is what a file said before, to be brought back."""
    try:
        _, source = parse_rate_or_source(typed.table())
    except InvalidValueError:  # which is for the file's own parser to say, with its key
        return None
    return None if source is None else source.deadline


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


def _target(quotas: Path | None, config: Path | None, brokers: tuple[str, ...], urls: tuple[str, ...]) -> _Target:
    """The configuration says what the options do not."""
    asked = tuple(f"--url={url}" for url in urls)
    if quotas is not None and config is None:
        broker_id = int(brokers[0]) if len(brokers) == 1 and brokers[0].isdecimal() else None
        return _Target(quotas, broker_id, urls, ("--quotas", str(quotas), *asked))
    settings = load_configuration(config or DEFAULT_CONFIG)
    where = () if config is None else ("--config", str(config))
    if quotas is not None:
        where = (*where, "--quotas", str(quotas))
    found = urls or (url_of(settings.http),)
    return _Target(quotas or settings.quotas.file, settings.broker.id, found, (*where, *asked))


def _change(target: _Target, asked: list[Ask], now: datetime, *, later: bool, dry_run: bool) -> Told:
    known = () if target.broker_id is None else (target.broker_id,)

    def work_out(before: bytes) -> tuple[bytes, QuotaChange]:
        found = change(before, asked, now, known=known, later=later, source=str(target.quotas))
        return found.after, found

    _, found = work_out(read_bytes(target.quotas)) if dry_run else edit_file(target.quotas, work_out)
    return Told(found, str(target.quotas), target.where, now, target.broker_id)


def _tell(ctx: click.Context, target: _Target, told: Told, *, dry_run: bool, as_json: bool) -> None:
    if not as_json:
        say("\n".join(told.lines()))
        if dry_run and told.change.changes_something:
            say(f"\n{_diff(told.change, target.quotas)}\ndry run: nothing is written")
        elif told.change.changes_something:
            say("\n".join(told.undo_lines()))
    confirmed = [] if dry_run else _confirm(target, told, quiet=as_json)
    if as_json:
        sidecars = [
            {"url": each.url, "broker": each.broker, "in_force": each.in_force, "said": each.line} for each in confirmed
        ]
        written = told.change.changes_something and not dry_run
        say_json(encoded({**told.as_json(), "written": written, "sidecars": sidecars}))
    if not all(each.good for each in confirmed):
        ctx.exit(1)


def _diff(found: QuotaChange, path: Path) -> str:
    before, after = (content.decode().splitlines() for content in (found.before, found.after))
    return "\n".join(difflib.unified_diff(before, after, str(path), str(path), lineterm=""))


def _confirm(target: _Target, told: Told, *, quiet: bool) -> list[Confirmation]:
    confirmed = []
    for each in confirm(target.urls, told.change.after):
        confirmed.append(each)
        if not quiet:
            say(each.line, err=not each.good)
    if not quiet:
        named = {str(ask.place.section[1]) for ask in told.change.asks if ask.place.section[0] == "brokers"}
        missing = sorted(named - {DEFAULT_BROKER} - {str(each.broker) for each in confirmed})
        if not target.urls:
            click.echo("not asked whether it is in force: give the sidecar's --url, or --config instead of --quotas")
        elif missing and any(each.broker is not None for each in confirmed):
            click.echo(f"not asked whether it is in force: the sidecar of broker {', '.join(missing)}: give its --url")
    return confirmed
