"""A field of an event that takes long to write out: what a quota selects may be 50 000 topics, 0.1 s of one core.

The loop that relays only says what is to be written; the journal's thread writes it, in slices, when it encodes the
line, and once. Pure. Invariant: what is written out is never altered after it was handed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import msgspec

from protocol.pacing import paced, pause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..quotas import Partitions

_encode = msgspec.json.Encoder().encode


class Lists(Protocol):
    """A quota, as far as it selects replicas."""

    def lists(self) -> Mapping[str, Partitions]: ...


class Selection:
    """``*``, or JSON like ``{"orders":"0-3"}``. `encoded` is for one thread."""

    __slots__ = ("_encoded", "_selecting")

    def __init__(self, selecting: Lists) -> None:
        self._selecting = selecting
        self._encoded: msgspec.Raw | None = None

    def encoded(self) -> msgspec.Raw:
        """Return the text as a JSON string."""
        if self._encoded is None:
            text = str(self)
            pause()
            self._encoded = msgspec.Raw(_encode(text))
        return self._encoded

    def __str__(self) -> str:
        lists = self._selecting.lists()
        if lists.keys() == {"*"} and lists["*"].every:
            return "*"
        return "{" + ",".join(f'{json.dumps(name)}:"{listed}"' for name, listed in paced(lists.items())) + "}"
