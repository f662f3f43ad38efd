"""``set``: makes an override at one or more sidecars, and prints its effect and how to undo it.

Parses the options; `operating.fleet` asks the sidecars, which judge names and values. Invariant: exit status 0 means
that every sidecar that was to change has the change in force.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from proxy.control.override_routes import PATH, UNDO_PATH
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.toml_reading import did_you_mean
from proxy.quota_files.override_store import load, store_path, write
from proxy.quotas import parse_span, shown
from proxy.quotas.client_entity import ClientEntity, parse_place
from proxy.quotas.keys import BY_KIND, LEFT_TO_BROKERS, OF_CLIENTS, OF_OVERRIDES, Position
from proxy.quotas.override import BROKER, Override, PlacedValue, added, kind_of, new_id, validated

from ..configuration import state_of
from ..fleet.members import at_all, author, local_settings, post
from ..fleet.replies import alike, had_none, result_lines, whom
from ..presence import why_it_may_run
from ..quota_words import parse_moment
from ..terminal import say
from .options import where_options
from .overrides import still_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from click.shell_completion import CompletionItem

    from ..fleet.members import Reply
    from .options import Where

KEYS = {key.typed: key for key in OF_OVERRIDES}
OF = ("--topic", "--peer", "--rack", "--client", "--user")
_NEXT_PAIR = re.compile(r",(?=[^,=\[\]]*=)(?![^\[]*\])(?![^{]*\})")


def _rows() -> Iterator[str]:
    width = max(map(len, KEYS)) + 2
    for name, key in KEYS.items():
        where = " (--client, --user)" if key in OF_CLIENTS else ""
        yield f"{name:{width}}{key.values}{where}"


_ROWS = "\n".join(_rows())
_HELP = f"""Set a KEY in a layer above quotas.toml, at the sidecar on this host, at --url, or at a whole --fleet.

\b
{_ROWS}

A rate is bytes per second or has its unit (50MiB/s, unlimited, 0 to stop catch-up), or a table that sets itself:
'{{ auto = true, min = "…", max = "…" }}'. A list is of partition:broker with --topic, else '*' or ''.

KEY=VALUE[,KEY=VALUE] is taken as well, as by kafka-configs. The file stays as it is; the newest override wins over it,
key by key, until it ends or is undone. Exit status 1 if a sidecar does not have it in force.

\b
Examples:
  throttle-sidecar set leader.replication.throttled.rate 20MiB/s --for 2h
  throttle-sidecar set mode.enforce false --for 30m --fleet fleet.toml --reason 'are we slow?'
"""


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=key.meaning) for name, key in KEYS.items() if name.startswith(incomplete)]


@click.command("set", short_help="Change a quota now, for good or for a time.", help=_HELP)
@click.argument("key", metavar="KEY", shell_complete=complete_key)
@click.argument("text", metavar="[VALUE]", required=False)
@click.option("--topic", metavar="NAME", help="Of this topic, or of a glob like 'clicks-*'.")
@click.option("--peer", metavar="N", help="A rate for the traffic with broker N, inside the broker's own rate.")
@click.option("--rack", metavar="NAME", help="The same for the traffic with all brokers of this rack.")
@click.option("--client", metavar="ID", help="Of this client id, of a glob like 'etl-*', or 'default': every other.")
@click.option("--user", metavar="NAME", help="The same of a user; with --client, of that client id of the user.")
@click.option(
    "--for",
    "--until",
    "ends",
    multiple=True,
    metavar="TIME",
    help="Ends after 2h, 90m, 1d12h, or at 2026-12-01T06:00:00Z.",
)
@click.option("--label", metavar="TEXT", help="Names what belongs together, such as a move: undo --label.")
@click.option("--reason", metavar="TEXT", help="For the log, the journal and `overrides`.")
@where_options
@click.option("--all-or-none", is_flag=True, help="With --fleet: undo it everywhere if one member does not take it.")
@click.option("--offline", is_flag=True, help="Where no sidecar runs: store it for the next start.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    key: str,
    text: str | None,
    topic: str | None,
    peer: str | None,
    rack: str | None,
    client: str | None,
    user: str | None,
    ends: tuple[str, ...],
    label: str | None,
    reason: str | None,
    where: Where,
    all_or_none: bool,
    offline: bool,
) -> None:
    """Make an override at each chosen sidecar, and report its effect."""
    if len(ends) > 1:
        raise ConfigurationError(f"--for and --until: expected one end, found {' and '.join(ends)}")
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        asked = changes(key, text, topic=topic, peer=peer, rack=rack, client=client, user=user)
        until = end_of(ends[0] if ends else None, now)
    except InvalidValueError as error:
        raise ConfigurationError(str(error)) from error
    new = {"id": new_id(), "label": label, "by": author(), "until": until, "reason": reason, "changes": asked}
    if offline:
        say(_stored(new, asked, now))
        return
    replies = at_all(where.members(), partial(post, page=PATH, body=new))
    complete = all(reply.error is None and (reply.answer or {}).get("in_force") for reply in replies)
    reverted = [] if complete or not all_or_none else _revert(replies, str(new["id"]))
    waiting = still_waiting(replies) if any(parse_place(each.place) for each in asked) else []
    say("\n".join([*result_lines(replies, now), *_warnings(asked), *waiting]))
    if reverted:
        say(_undone_words(reverted))
    elif any(reply.error is None for reply in replies):
        say(f"undo: throttle-sidecar undo {new['id']}{where}")
    if not complete:
        ctx.exit(1)


def _warnings(asked: Sequence[PlacedValue]) -> Iterator[str]:
    """Yield a warning for each value that is hardly meant, as of a rate whose unit was forgotten."""
    for place in dict.fromkeys(each.place for each in asked):
        entity = parse_place(place)
        if entity is not None and entity.doubt is not None:
            yield f"warning: {place}: {entity.doubt}"
    for each in asked:
        kind = kind_of(each.place)
        key = BY_KIND[kind].get(each.key)
        # The sidecar has named the change that it refuses.
        with suppress(InvalidValueError):
            doubt = None if key is None else key.doubt(key.parse(each.value, Position(kind)))
            if doubt is not None:
                yield f"warning: {each}: {doubt}"


def _revert(replies: Sequence[Reply], override: str) -> list[Reply]:
    """Undo it where it was made, or may have been: a member that did not answer in time is asked as well."""
    made = [reply.member for reply in replies if not reply.refused]
    return at_all(made, partial(post, page=UNDO_PATH, body={"id": override, "by": author()}))


def _undone_words(reverted: Sequence[Reply]) -> str:
    """Return where it was undone again, and where it may be in force, now or after a restart."""
    groups = {_still_there(group[0]): whom(group) for group in alike(reverted, _still_there)}
    undone = groups.pop(None, None)
    if not groups:
        return "undone again where it was made"
    first = "not undone everywhere" if undone is None else f"undone again at {undone}"
    return "; ".join([first, *(f"{where}: {why}" for why, where in groups.items())])


def _still_there(reply: Reply) -> str | None:
    """Return why an override may be in force after its undo; None if it is gone for good."""
    if had_none(reply):
        return None
    if reply.refused:
        return f"refused, it may be in force there: {reply.error}"
    if reply.answer is None:
        return "no answer, it may be in force there"
    if why := reply.answer.get("not_stored"):
        return f"a restart would bring it back until its undo is stored: {why}"
    return None if reply.answer.get("in_force") else "its undo is not in force yet"


def _stored(new: dict[str, Any], asked: list[PlacedValue], now: datetime) -> str:
    """Store an override for the next start of this host's sidecar. Raises ConfigurationError."""
    settings = local_settings()
    if settings is None:
        raise ConfigurationError("--offline: expected proxy.toml in this folder or in /etc/kafka-throttle-sidecar")
    found = why_it_may_run(settings)
    if found is not None:
        raise ConfigurationError(
            f"--offline: the sidecar of broker {settings.broker.id} may run: {found}: leave out --offline; or stop it, "
            "and try again as root or its own user"
        )
    override, _ = validated(Override(since=now, **{**new, "changes": tuple(asked)}), settings.broker.id)
    path = store_path(state_of(settings, ()), settings.broker.id)
    stored = load(path, settings.broker.id)
    if stored.problem is not None:
        raise ConfigurationError(f"{stored.problem}: start the sidecar, which keeps this file aside, or move it away")
    try:
        write(path, added(stored.overrides, override, now))
    except OSError as error:
        raise ConfigurationError(f"{path}: overrides cannot be stored: {error.strerror or error}") from error
    return (
        f"stored in {path} for the next start of the sidecar of broker {settings.broker.id}; it is not in force now\n"
        f"undo: throttle-sidecar undo {override.id}, once the sidecar runs"
    )


def changes(
    key: str,
    text: str | None,
    *,
    topic: str | None = None,
    peer: str | None = None,
    rack: str | None = None,
    client: str | None = None,
    user: str | None = None,
) -> list[PlacedValue]:
    """Return the changes of ``KEY VALUE``, or of ``KEY=VALUE[,KEY=VALUE]`` as kafka-configs takes it.

    Raises InvalidValueError. Whether a name or a value is good is for the sidecar to say.
    """
    entity = None if user is client is None else str(ClientEntity(user, client))
    options = (("topics.", topic), ("peers.", peer), ("racks.", rack), ("", entity))
    places = [f"{kind}{name}" for kind, name in options if name is not None]
    if len(places) > 1:
        raise InvalidValueError(f"{', '.join(OF)}: expected one of them, or --client and --user: each has own rates")
    place = places[0] if places else BROKER
    return [_change(key, text, place) for key, text in _pairs(key, text)]


def _change(name: str, text: str, place: str) -> PlacedValue:
    key = KEYS.get(name)
    if name in LEFT_TO_BROKERS:
        raise InvalidValueError(f"{name}: {LEFT_TO_BROKERS[name].meaning}")
    if key is None:
        raise InvalidValueError(f"{name}: unknown key; expected one of {', '.join(KEYS)}{did_you_mean(name, KEYS)}")
    if key in OF_CLIENTS and parse_place(place) is None:
        raise InvalidValueError(f"{name}: is of clients: expected --client or --user, with a name, a glob or default")
    if name != key.name:
        if place != BROKER:
            raise InvalidValueError(f"{name}: holds for the whole sidecar: leave out {', '.join(OF)}")
        place = key.kinds[0].value
    try:
        return PlacedValue(place, key.name, key.from_text(text))
    except InvalidValueError as error:
        raise InvalidValueError(f"{name}: {error}") from error


def _pairs(key: str, text: str | None) -> Iterator[tuple[str, str]]:
    if text is not None:
        yield key, text
        return
    if "=" not in key:
        raise InvalidValueError(f"{key}: expected a VALUE after it")
    for part in _NEXT_PAIR.split(key):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip().removeprefix("[").removesuffix("]")


def end_of(text: str | None, now: datetime) -> datetime | None:
    """Return when ``--for 2h`` or ``--until 2026-12-01T06:00:00Z`` ends. Raises InvalidValueError."""
    if text is None:
        return None
    try:
        return now + parse_span(text)
    except InvalidValueError as error:
        try:
            moment = parse_moment(text).astimezone(UTC)
        except InvalidValueError:
            expected = "expected a time like 2h, 90m or 1d12h, or its end, like 2026-12-01T06:00:00Z"
            raise InvalidValueError(f"--for: {expected}, found {shown(text)}") from error
    if moment <= now:
        raise InvalidValueError(
            f"--until: expected a time in the future, found {text} (it is {now:%Y-%m-%dT%H:%M:%SZ})"
        )
    return moment
