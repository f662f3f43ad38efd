"""The names in quotas.toml: keys with dots, topics and globs, brokers, racks.

Knows names, not what they are of. Pure. Invariant: a name that is accepted can be written in a header as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

TOPIC_OR_GLOB = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}", re.ASCII)
GLOB_WILDCARD = re.compile(r"[*?\[]")
MOST_BROKER_ID = 2**31 - 1
_BROKER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
RACK = re.compile(r"[^\x00-\x1f\x7f\"\\]{1,249}")
"""broker.rack is any text; one with quotes, backslashes or control characters is refused, for the sake of messages and
labels, which show it as it is."""
SET_TWICE = "set twice, as a dotted key and as a quoted one"
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def flattened(
    table: dict[str, Any], prefix: str = "", *, whole: Collection[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """Yield each key of a table as Kafka's dotted name, with its value. TOML makes nested tables of a dotted key unless
    the key is quoted; both spellings come out alike. `whole`: keys whose value may itself be a table, which is not
    taken for a dotted key."""
    for key, value in table.items():
        if isinstance(value, dict) and value and prefix + key not in whole:
            yield from flattened(value, f"{prefix}{key}.", whole=whole)
        else:
            yield prefix + key, value


def is_broker_id(text: str) -> bool:
    """Return True if it is an int32 of at least 0, as node.id is, written without a sign or a zero before it."""
    return _BROKER.fullmatch(text) is not None and int(text) <= MOST_BROKER_ID


def quoted(name: str) -> str:
    """Return a name as TOML wants it in a key."""
    return name if _BARE.fullmatch(name) else f'"{name}"'
