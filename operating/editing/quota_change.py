"""What ``set`` is asked for: keys, values, brokers, topics and times as they are typed, and as they are typed again.

Pure; time is an argument. Invariant: the commands that are told ask for exactly what they were made from.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from proxy.errors import InvalidValueError
from proxy.files.toml_reading import load_toml
from proxy.quotas import RATE_KEYS, REPLICAS_KEYS, shown
from proxy.quotas.keys import RACK, TOPIC_OR_GLOB, is_broker_id
from proxy.suggestions import did_you_mean

from .asks import Ask
from .editing import Assign, End, Remove
from .facts import Place
from .layout import as_inline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .editing import Wish
    from .facts import Value

ENFORCE = "mode.enforce"
KEYS = (*RATE_KEYS, *REPLICAS_KEYS, ENFORCE)
DEFAULT_BROKER = "default"
_OPTIONS = {"peers": "--peer", "racks": "--rack", "topics": "--topic"}
_NEXT_PAIR = re.compile(r",(?=[^,=\[\]]*=)(?![^\[]*\])(?![^{]*\})")


class Whose(NamedTuple):
    """Whose quota the options name: some brokers, or one peer, one rack or one topic. Of peer, rack and topic only one
    may be named."""

    brokers: tuple[str, ...] = ()
    peer: str | None = None
    rack: str | None = None
    topic: str | None = None

    def section(self) -> tuple[str, str] | None:
        """Return the kind and the name of the section that is named; None if it is a broker's. Raises InvalidValueError
        if more than one of peer, rack and topic is named, or if a name is not valid."""
        found = [("peers", self.peer), ("racks", self.rack), ("topics", self.topic)]
        named = [(kind, name) for kind, name in found if name is not None]
        if len(named) > 1:
            raise InvalidValueError("--peer, --rack and --topic: one of them at a time: each has rates of its own")
        for kind, name in named:
            if kind == "peers" and not is_broker_id(name):
                raise InvalidValueError(f"--peer: expected the other broker's id, found {shown(name)}")
            if kind == "racks" and not RACK.fullmatch(name):
                raise InvalidValueError(f"--rack: expected a rack without quotes and backslashes, found {shown(name)}")
            if kind == "topics" and not TOPIC_OR_GLOB.fullmatch(name):
                expected = "expected a topic name or glob (letters, digits, . _ - and * ? [ ])"
                raise InvalidValueError(f"--topic: {expected}, found {shown(name)}")
        return named[0] if named else None


def places(key: str, whose: Whose) -> list[Place]:
    """Return the places in the file where `key` is to be set, one for each named broker. Raises InvalidValueError for
    an unknown key, and for one that the named section cannot have."""
    section, brokers = whose.section(), whose.brokers
    if key not in KEYS:
        raise InvalidValueError(f"{key}: unknown key; expected one of {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    if key == ENFORCE:
        if brokers or section is not None:
            raise InvalidValueError(f"{key}: holds for the whole file: leave out --broker, --topic, --peer and --rack")
        return [Place(("mode",), "enforce")]
    if section is None:
        return [Place(("brokers", broker), key) for broker in dict.fromkeys(brokers or (DEFAULT_BROKER,))]
    if brokers and key in RATE_KEYS:
        raise InvalidValueError(
            f"{key}: a rate inside the rate is the same for every broker that reads the file: leave out --broker"
        )
    if brokers:
        raise InvalidValueError(
            f'{key}: of a topic, or of a broker: for one broker write "0:{brokers[0]},1:{brokers[0]}"'
        )
    if key in REPLICAS_KEYS and section[0] != "topics":
        raise InvalidValueError(f"{key}: a list is of a topic or a broker: --topic or --broker")
    return [Place(section, key)]


def asks(key: str, wish: Wish, whose: Whose) -> list[Ask]:
    """Where no broker is named the default is, and with it every broker. Raises InvalidValueError."""
    return [Ask(place, wish, alone=DEFAULT_BROKER in whose.brokers) for place in places(key, whose)]


class Pair(NamedTuple):
    """None: only the key was given."""

    key: str
    text: str | None


def parse_pairs(key: str, text: str | None) -> list[Pair]:
    """``KEY VALUE``, or what kafka-configs takes with --add-config: ``KEY=VALUE[,KEY=VALUE]``, lists in brackets.

    Raises InvalidValueError.
    """
    if text is not None or "=" not in key:
        return [Pair(key, text)]
    pairs = []
    for part in _NEXT_PAIR.split(key):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InvalidValueError(f"expected KEY=VALUE[,KEY=VALUE], lists in brackets, found {shown(key)}")
        stripped = value.strip()
        pairs.append(Pair(name.strip(), stripped[1:-1] if stripped[:1] + stripped[-1:] == "[]" else stripped))
    if len({pair.key for pair in pairs}) < len(pairs):
        raise InvalidValueError(f"expected each key once, found {shown(key)}")
    return pairs


def parse_value(key: str, text: str) -> Value:
    """As quotas.toml types it; whether it is valid is for the file's own parser to say. Raises InvalidValueError for
    what begins like a table, and is none."""
    if key in RATE_KEYS and text.lstrip().startswith("{"):
        return _parse_table(key, text)
    if key == ENFORCE:
        return {"true": True, "false": False}.get(text, text)
    return int(text) if key in RATE_KEYS and re.fullmatch(r"-?[0-9]{1,20}", text, re.ASCII) else text


def _parse_table(key: str, text: str) -> Value:
    """The table of a rate that sets itself, as TOML has it on one line."""
    refusal = f'{key}: expected a table like {{ finish_by = "06:00", max = "300MiB/s" }}, found {shown(text)}'
    try:
        found = load_toml(f"value = {text}")
    # Besides TOMLDecodeError, which is one: ValueError for a date that is none and a number of too many digits.
    except (ValueError, RecursionError) as error:
        on_one_line = " (TOML has it on one line)" if "\n" in text.strip() else ""
        raise InvalidValueError(f"{refusal}: {error}{on_one_line}") from error
    if found.keys() != {"value"}:
        # What somebody pasted with the table, such as the next section of a file: it would be lost without a word.
        more = ", ".join(sorted(found.keys() - {"value"}))
        raise InvalidValueError(f"{refusal}: expected nothing behind the table, found {more}")
    return cast("Value", found["value"])


def commands(asked: Iterable[Ask], where: Sequence[str], *, later: bool = False) -> list[list[str]]:
    """Return the ``throttle-sidecar set …`` commands to run one after the other, each as a list of arguments. `where`:
    the options that name the file. If the same is asked for several brokers, one command names all of them."""
    return [
        ["throttle-sidecar", "set", *where, *_whose(list(group)), *(["--later"] if later else []), *_typed(wish, key)]
        for (_, key, wish), group in groupby(asked, lambda ask: (_kind(ask.place), _key(ask.place), ask.wish))
    ]


def typed(lines: Iterable[Sequence[str]]) -> str:
    """Return the commands as one line for a shell, joined so that each runs only if the last one succeeded."""
    return " && ".join(map(shlex.join, lines))


def _kind(place: Place) -> tuple[str | int, ...]:
    return place.section if place.section[0] != "brokers" else ("brokers",)


def _key(place: Place) -> str:
    return ENFORCE if place.section == ("mode",) else place.key


def _whose(group: Sequence[Ask]) -> list[str]:
    kind, *name = map(str, group[0].place.section)
    if kind in _OPTIONS:
        return [_OPTIONS[kind], *name]
    if kind != "brokers" or (len(group) == 1 and name == [DEFAULT_BROKER] and not group[0].alone):
        return []
    return [word for ask in group for word in ("--broker", str(ask.place.section[1]))]


def _typed(wish: Wish, key: str) -> list[str]:
    match wish:
        case Remove():
            return [key, "--remove"]
        case End():
            return [key, "--end"]
        case Assign(value, until):
            text = as_inline(value) if isinstance(value, dict) else str(value)
            text = text.lower() if isinstance(value, bool) else text
            ends = [] if until is None else ["--until", until.isoformat()]
            # A value such as "-1" would be taken for an option without the "--" before it.
            return [*ends, "--", key, text] if text.startswith("-") else [*ends, key, text]
