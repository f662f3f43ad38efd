"""Answers to decided requests that are whole when they come and lose nothing: taken, completed, learnt from.

Most answers are small, and somebody waits for each: an acks=all record is acknowledged when its follower asks again.
So they go on first, in one piece with the entries of omitted replicas, and what they tell is learnt afterwards. An
answer without records that is equal to the one before tells nothing. No I/O.

Invariants: an answer is matched with its request before its bytes are taken; what was taken is settled once, by `sent`
or by `lost`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.framing import LENGTH_PREFIX_BYTES
from protocol.walker import Head, ResponseEntry, response_walker, walk_whole

from .replaying import Replays, completed, encode
from .walk import CORRELATION_ID_BYTES, TOPICS_END, header_bytes, says
from .whole_frames import whole_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.buffers import Bytes
    from protocol.fetch_response import ReplayedEntry

    from ..throttle.outlook import Outlook
    from .exchange import Exchange
    from .window import Window

FIXED_HEAD_BYTES = LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES


class _Taken(NamedTuple):
    """A response that goes on at once; nothing is learnt from it before it is through."""

    outlook: Outlook
    rest: bytes
    """What followed the correlation id."""
    rows: list[ResponseEntry]
    head: Head | None
    """None: it is equal to the last one, which told all."""
    end: int
    """Of the frame in the window's buffer, to which the rows' positions belong."""
    at: float


class WholeAnswers:
    """Of one connection."""

    __slots__ = ("_exchange", "_last", "_replays", "_taken", "_window")

    def __init__(self, window: Window, exchange: Exchange) -> None:
        self._window = window
        self._exchange = exchange
        self._taken: _Taken | None = None
        self._replays: tuple[int, Sequence[ReplayedEntry], Replays] = (0, (), Replays(0, b""))
        """Version, entries, and how they were encoded last."""
        self._last: tuple[int, bytes, int | None] | None = None
        """Version and what followed the correlation id of the last answer, if that had no records, and by when it told
        nothing new: to a follower in sync the leader says the same again and again."""

    def take(self, now: float) -> Bytes | None:
        """Take the response at the window's start if it is whole and none of its records are to be taken away; return
        what is to go on at once, None if it is not such a one. Then `sent` or `lost` is due."""
        window, exchange = self._window, self._exchange
        whole = whole_response(window)
        outlook = None if whole is None else exchange.awaited(whole[0])
        if whole is None or outlook is None:
            return None
        topics_end = self._begins(outlook, *whole, now)
        if topics_end is None:
            return None
        size, start = whole[1], window.start
        data: Bytes = window.view(size)
        if outlook.replays:
            data = completed(outlook.version, window.buffer, (start, start + size), self._encoded(outlook), topics_end)
        window.take(size)
        return data

    def _begins(self, outlook: Outlook, correlation_id: int, size: int, now: float) -> int | None:
        """The response at the window's start is about to go on at once. Return where in the buffer its topics end; None
        if it is not, because it cannot be understood so, or records are to be taken away."""
        buffer, start = self._window.buffer, self._window.start
        version, end, head_bytes = outlook.version, start + size, LENGTH_PREFIX_BYTES + header_bytes(outlook.version)
        if size < head_bytes or outlook.must_discard(now):
            return None
        if head_bytes > FIXED_HEAD_BYTES and buffer[start + FIXED_HEAD_BYTES] != 0:
            return None
        rest = buffer[start + FIXED_HEAD_BYTES : end]
        rows: list[ResponseEntry] = []
        head: Head | None = None
        if self._last is None or self._last != (version, rest, outlook.teaches()):
            try:
                rows, head = walk_whole(response_walker(version, tuple), buffer, start + head_bytes, end)
            except ProtocolError:
                return None
        self._exchange.received(correlation_id, now)
        self._taken = _Taken(outlook, rest, rows, head, end, now)
        return end if head is None else int(head[TOPICS_END])  # only a session's has anything behind its topics

    def _encoded(self, outlook: Outlook) -> Replays:
        """What is to be added; from one fetch to the next it is mostly the same."""
        version, entries, encoded = self._replays
        if version != outlook.version or entries != outlook.replays:
            encoded = encode(outlook.version, outlook.replays)
            self._replays = outlook.version, outlook.replays, encoded
        return encoded

    def sent(self) -> None:
        """It has gone on, all of it. What it tells is learnt now: its follower need not wait for that."""
        taken, self._taken = self._taken, None
        if taken is not None:
            if taken.head is not None:
                self._learn(taken, taken.head)
            taken.outlook.finish(taken.at)

    def lost(self, now: float) -> None:
        """The connection has ended: perhaps not all of it has gone on."""
        if self._taken is not None:
            self._taken.outlook.lost(now)

    def forget(self) -> None:
        """Another answer goes by, of which nothing is known here."""
        self._last = None

    def _learn(self, taken: _Taken, head: Head) -> None:
        outlook, rows = taken.outlook, taken.rows
        outlook.answered(*says(head))
        if rows:
            outlook.forwards(rows, self._window.buffer, taken.end, taken.at)
        teaches = outlook.teaches()
        tells = teaches is None or any(size > 0 or error for _, _, error, _, _, _, _, size in rows)
        self._last = None if tells else (outlook.version, taken.rest, teaches)
