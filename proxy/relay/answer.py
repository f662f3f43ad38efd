"""The answer to a decided request, from its first byte to its last: read, edited, learnt from.

    head ─▶ learn the session ─▶ piece by piece: find the entries in it, edit it, let it go, learn from them ─▶ settle

A piece is what of the frame is in the window; most answers are one. Where records are taken away the frame's length
is not known before its end: then the pieces are kept instead, and go on together. No I/O.

Invariant: an answer is settled once, by `through` or by `lost`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.fetch.response import topic_count_at
from protocol.fetch.topic_blocks import count_bytes
from protocol.fetch.walker import ResponseEntry, response_walker, walk_whole
from protocol.wire.framing import LENGTH_PREFIX_BYTES

from . import edits
from .edits import Edit
from .exchange import Undecoded
from .reading import Replace
from .transfer import LEAST_SPLICED_BYTES, Need
from .walk import CORRELATION_ID_BYTES, TOPICS_END, FrameWalk, header_bytes, says

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.fetch.response import ReplayedEntry

    from ..config.settings import LimitSettings
    from ..throttle.outlook import Outlook
    from .edits import Replays
    from .exchange import Exchange
    from .reading import Step
    from .window import Window

MOST_COUNT_BYTES = 4
"""Beyond its first byte, of a count in flexible versions."""
FIXED_HEAD_BYTES = LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES


class AnswerReader:
    """Of one connection: one answer after the other, each from `begin` until `through` is true, or `lost`."""

    __slots__ = (
        "_beyond", "_buffer", "_clock", "_encoded", "_end", "_exchange", "_kept", "_kept_to", "_limits", "_now",
        "_outlook", "_owes", "_passed", "_reserved", "_rest", "_rows", "_told", "_total", "_walk",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, limits: LimitSettings, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._limits = limits
        self._clock = clock
        self._encoded: tuple[int, Sequence[ReplayedEntry], Replays] = (0, (), edits.NO_REPLAYS)
        """Version, entries, and how they were encoded last: from one fetch to the next they are mostly the same."""
        self._reserved = 0
        """Bytes that the answer may take here."""
        self._told: tuple[int, bytes, int | None] | None = None
        """Version and what followed the correlation id of the last answer, if that had no records, and by when it told
        nothing new: to a follower in sync the leader says the same again and again."""

    def begin(self, outlook: Outlook, total: int, now: float) -> None:
        """An answer of `total` bytes, with its length prefix, begins at the window's start."""
        self._outlook = outlook
        self._total = total
        self._now = now
        self._walk: FrameWalk | None = None
        self._passed = 0
        """So much of the frame was told to go, or kept."""
        self._beyond = 0
        """So much behind that, and behind the window, needs no look and is to go next, being much."""
        self._rows: Sequence[ResponseEntry] = ()
        """Entries in what goes now; their positions are in `_buffer`, of which nothing is read beyond `_end`."""
        self._owes = bool(outlook.replays)
        """Entries are to be added, and have not been."""
        self._kept: bytearray | None = None
        """What is left of an answer of which records are taken away; of its bytes before `_kept_to` no more is."""
        self._rest: bytes | None = None
        """What follows the correlation id, if an equal answer may tell nothing new."""

    def forget(self) -> None:
        """Another answer goes by, of which nothing is known here."""
        self._told = None

    def read(self, window: Window) -> Step:
        """Raises ProtocolError for an answer that must be altered and cannot be read."""
        if self._walk is not None:
            self._now = self._clock()
            return self._go_on(window, self._walk)
        outlook, total = self._outlook, self._total
        least = _least_bytes(outlook.version)
        if window.end - window.start < total and total >= least:
            wanted = min(least + MOST_COUNT_BYTES, total)
            if window.size < wanted:
                return self._as_it_comes() if window.ended else Need(wanted, total - window.size)
        flexible = header_bytes(outlook.version) > CORRELATION_ID_BYTES
        if total < least or (flexible and window.buffer[window.start + FIXED_HEAD_BYTES] != 0):
            if outlook.replays:
                raise ProtocolError("the leader's response ends within its header")
            self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            return self._as_it_comes()
        return self._first(window)

    def through(self) -> bool:
        """What was told to go has gone: learn the entries in it, and tell whether that was all."""
        outlook, rows = self._outlook, self._rows
        if rows:
            if self._kept is None:
                outlook.forwards(rows, self._buffer, self._end, self._now)
            else:
                self._learn_kept(rows, self._now)
        if self._passed < self._total or self._beyond or self._owes:
            self._rows = ()
            return False
        if self._rest is not None:
            self._remember(self._rest)
        if self._reserved:
            self._release()
        outlook.finish(self._now)
        return True

    def lost(self, now: float) -> None:
        """The connection has ended: perhaps not all of it has gone on."""
        self._release()
        self._outlook.lost(now)

    def _as_it_comes(self) -> int:
        """It cannot be read: nothing is learnt from it."""
        self._outlook.lost(self._now)
        self._told = None
        self._passed = self._total
        return self._total

    def _first(self, window: Window) -> Step:
        """What stands before the topics is in the window, and none of it has gone on."""
        outlook, total, version = self._outlook, self._total, self._outlook.version
        told, self._told = self._told, None
        discards = outlook.must_discard(self._now)
        if discards:
            discards = self._may_keep(total - LENGTH_PREFIX_BYTES)
        if discards:
            self._kept, self._kept_to = bytearray(), 0
        elif window.end - window.start >= total:
            step = self._whole(window, told)
            if step is not None:
                return step
        row = ResponseEntry if discards else tuple
        self._walk = FrameWalk(window, version=version, size=total - LENGTH_PREFIX_BYTES, row=row)
        return self._go_on(window, self._walk)

    def _may_keep(self, size: int) -> bool:
        """Whether there is room for an answer of that size, until it has gone on."""
        exchange = self._exchange
        if size > self._limits.max_substitution_bytes:
            exchange.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            return False
        if not exchange.buffers.reserve(size):
            exchange.pass_undecoded(Undecoded.MEMORY)
            return False
        self._reserved = size
        return True

    def _release(self) -> None:
        self._exchange.buffers.release(self._reserved)
        self._reserved = 0

    def _whole(self, window: Window, told: tuple[int, bytes, int | None] | None) -> Step | None:
        """All of it is here, as most answers are, and goes on in one piece; None if it cannot be read."""
        outlook, start, end, version = self._outlook, window.start, window.start + self._total, self._outlook.version
        teaches = outlook.teaches()
        rest = window.buffer[start + FIXED_HEAD_BYTES : end] if teaches is not None else None
        if told is not None and told == (version, rest, teaches):
            self._told, topics_end = told, end  # what has no session has nothing behind its topics
        else:
            walk = response_walker(version, tuple)
            try:
                self._rows, head = walk_whole(
                    walk, window.buffer, start + LENGTH_PREFIX_BYTES + header_bytes(version), end
                )
            except ProtocolError:
                return None
            outlook.answered(*says(head))
            topics_end, self._rest, self._buffer, self._end = head[TOPICS_END], rest, window.buffer, end
        self._passed = self._total
        if not self._owes:
            return self._total
        return self._edited(window, (0, self._total), [self._grown(window), self._add(topics_end - start)])

    def _go_on(self, window: Window, walk: FrameWalk) -> Step:
        passed = self._passed
        if self._beyond:
            beyond, self._beyond = self._beyond, 0
            self._passed += beyond
            return beyond
        if self._owes and walk.topics_end == passed:
            return Replace(0, self._add(passed).insert)
        rows = self._step(walk)
        if not passed:
            self._outlook.answered(*walk.says)
        unseen = walk.unseen(passed)
        seen = min(unseen, window.size)
        if not seen:
            return Need(window.size + 1, self._total - passed - window.size)
        self._rows, self._buffer, self._end = rows, window.buffer, window.end
        self._passed += seen
        if self._kept is not None:
            return self._keep(window, walk, (passed, passed + seen), self._kept)
        self._beyond = unseen - seen if unseen - seen >= LEAST_SPLICED_BYTES else 0
        changes = [self._grown(window)] if self._owes and not passed else []
        changes += self._added(walk, passed + seen)
        return self._edited(window, (passed, passed + seen), changes) if changes else seen

    def _step(self, walk: FrameWalk) -> list[ResponseEntry]:
        """Step on. Where nothing is altered, an answer that cannot be read passes as it is (fail open)."""
        try:
            return walk.step(self._passed)
        except ProtocolError:
            if self._outlook.replays or self._kept is not None:
                raise
            self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            self._outlook.lost(self._now)
            return walk.give_up()

    def _grown(self, window: Window) -> Edit:
        """The head of a frame to which entries are added."""
        replays, frame = self._replays, (window.start, window.end)
        size = self._total - LENGTH_PREFIX_BYTES + len(replays.encoded)
        return edits.head(self._outlook.version, window.buffer, frame, size=size, topics=replays.topics)

    def _add(self, at: int) -> Edit:
        self._owes = False
        return Edit(at, 0, self._replays.encoded)

    def _added(self, walk: FrameWalk, end: int) -> list[Edit]:
        """What is owed, if its place is known and not behind `end`."""
        at = walk.topics_end
        return [self._add(at)] if self._owes and at is not None and at <= end else []

    @staticmethod
    def _edited(window: Window, piece: tuple[int, int], changes: Sequence[Edit]) -> Replace:
        data, _ = edits.applied(window.memory, window.start - piece[0], piece, changes)
        return Replace(piece[1] - piece[0], data)

    def _keep(self, window: Window, walk: FrameWalk, piece: tuple[int, int], kept: bytearray) -> Replace:
        """Take the piece in, without records that are over quota; at the end what is left goes on."""
        version, (start, end) = self._outlook.version, piece
        origin = window.start - start
        changes = [
            edits.emptied(version, window.buffer, row, start=window.start, origin=origin)
            for row in self._rows
            if self._outlook.withholds(row)
        ]
        changes += self._added(walk, end)
        data, at = edits.applied(window.memory, origin, (max(start, self._kept_to), end), changes)
        kept += data
        self._kept_to = max(at, end)
        if end < self._total:
            return Replace(end - start, b"")
        size = len(kept) - LENGTH_PREFIX_BYTES
        head = edits.head(version, kept, (0, len(kept)), size=size, topics=self._replays.topics)
        kept[: head.remove] = head.insert
        return Replace(end - start, kept)

    def _learn_kept(self, rows: Sequence[ResponseEntry], now: float) -> None:
        outlook = self._outlook
        for row in rows:
            if outlook.withholds(row):
                outlook.discards(row, now)
            else:
                outlook.forwards((row,), self._buffer, self._end, now)

    def _remember(self, rest: bytes) -> None:
        """An answer without records is known the next time, unless every entry must be looked at."""
        teaches = self._outlook.teaches()
        tells = teaches is None or any(size > 0 or error for _, _, error, _, _, _, _, size in self._rows)
        self._told = None if tells else (self._outlook.version, rest, teaches)

    @property
    def _replays(self) -> Replays:
        """What is added to this answer."""
        version, entries, encoded = self._encoded
        outlook = self._outlook
        if entries is not outlook.replays and (version != outlook.version or entries != outlook.replays):
            encoded = edits.encode(outlook.version, outlook.replays)
            self._encoded = outlook.version, outlook.replays, encoded
        return encoded


@functools.cache
def _least_bytes(version: int) -> int:
    """Of a frame that has a number of topics."""
    return LENGTH_PREFIX_BYTES + topic_count_at(version) + len(count_bytes(version, 0))
