"""A field of an event that takes long to write out: what a quota selects may be 50 000 topics, 0.1 s of one core.

The loop that relays only says what is to be written; the journal's thread writes it, in slices, when it encodes the
line, and once. Pure. Invariant: what is written out is never altered after it was handed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..ledger.blocks import no_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..quotas import Partitions

_encode = msgspec.json.Encoder().encode
TOPICS_AT_ONCE = 64
"""How many topics are written between two pauses."""


class Lists(Protocol):
    """A quota, as far as it selects replicas."""

    def lists(self) -> Mapping[str, Partitions]: ...


class Selection:
    """``*``, or JSON like ``{"orders":"0-3"}``. `encoded` is for one thread."""

    __slots__ = ("_encoded", "_selecting")

    def __init__(self, selecting: Lists) -> None:
        self._selecting = selecting
        self._encoded: msgspec.Raw | None = None

    def encoded(self, pause: Callable[[], object] = no_pause) -> msgspec.Raw:
        """Return it as a JSON string. `pause` is called after every few topics."""
        if self._encoded is None:
            text = self._text(pause)
            pause()
            self._encoded = msgspec.Raw(_encode(text))
        return self._encoded

    def __str__(self) -> str:
        return self._text(no_pause)

    def _text(self, pause: Callable[[], object]) -> str:
        lists = self._selecting.lists()
        if lists.keys() == {"*"} and lists["*"].every:
            return "*"
        return "{" + ",".join(_members(lists, pause)) + "}"


def _members(lists: Mapping[str, Partitions], pause: Callable[[], object]) -> Iterator[str]:
    for number, (name, listed) in enumerate(lists.items(), 1):
        yield f'{json.dumps(name)}:"{listed}"'
        if number % TOPICS_AT_ONCE == 0:
            pause()
