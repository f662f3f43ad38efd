"""The answer to a decided request, from its first byte to its last: read, edited, learnt from.

    head ─▶ learn the session ─▶ piece by piece: find the entries in it, edit it, let it go, learn from them ─▶ settle

`response_walk` finds and `response_edits` edits; neither knows the other, and this file alone drives both.
A piece is the part of the frame that is in the window; most answers are one piece. A frame begins with its length. If
records are taken away, that length is not known before the frame's end: then all pieces are kept, and go on together
at the end. No I/O.

Invariant: an answer is settled once, by `on_sent` or by `lost`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.fetch.walker import ResponseEntry, walk_whole
from protocol.wire.framing import LENGTH_PREFIX_BYTES

from ..statistics.counters import Undecoded
from . import response_edits
from .direction import Replace
from .in_flight import LONG_FRAME_BYTES
from .response_edits import Additions, ResponseBuffer
from .response_walk import FIXED_HEAD_BYTES, TOPICS_END, FrameWalk, PartialEntry, form_of, says
from .transfer import MIN_SPLICED_BYTES, Need

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Sequence

    from ..config.settings import LimitSettings
    from ..throttle.pending_fetch import PendingFetch
    from .direction import Step
    from .in_flight import InFlightRequests
    from .response_edits import Edit
    from .transfer import Window

MAX_COUNT_BYTES = 4
"""How many bytes the number of topics may take after its first one: in flexible versions it is a varint."""


class DecidedResponseReader:
    """Reads one connection's answers, one after the other, each from `begin` until `on_sent` is true, or `lost`."""

    __slots__ = (
        "_additions",
        "_buffer",
        "_clock",
        "_form",
        "_gone_at",
        "_in_flight",
        "_last_empty",
        "_now",
        "_passed",
        "_pending",
        "_rows",
        "_rows_end",
        "_rows_in",
        "_settled",
        "_to_splice",
        "_total",
        "_unfinished",
        "_walk",
        "_was_read_at",
    )  # fmt: skip

    def __init__(self, in_flight: InFlightRequests, limits: LimitSettings, clock: Callable[[], float]) -> None:
        self._in_flight = in_flight
        self._clock = clock
        self._additions = Additions()
        self._buffer = ResponseBuffer(in_flight, limits, self._additions)
        self._unfinished = PartialEntry()
        self._rows: Sequence[ResponseEntry] = ()
        """The entries in the bytes that go on now, perhaps as plain tuples: they are learnt from, once, when the bytes
        have gone. Positions in them are offsets in `_rows_in`, which holds nothing from `_rows_end` on."""
        self._rows_in: mmap.mmap
        self._rows_end = 0
        self._gone_at = 0
        """The bytes to subtract from those of answers that have been relayed to get the offset in `_rows_in` up to
        which they have gone."""
        self._last_empty: tuple[int, bytes, int | None] | None = None
        """The last answer, if it had no records: its version, its bytes after the correlation id, and the state of
        knowledge (`PendingFetch.teaches`) it left. An equal answer in an equal state is not read again."""

    def begin(self, pending: PendingFetch, total: int, now: float) -> None:
        """Begin an answer of `total` bytes, with its length prefix, at the window's start."""
        self._pending = pending
        self._total = total
        self._now = pending.replicas.answered_at = now
        self._walk: FrameWalk | None = None
        self._passed = 0  # bytes of the frame that are to be sent, or were kept
        self._rows = ()
        self._to_splice = 0  # bytes after the window, all of one partition's records, to be spliced next without a look
        self._settled = False  # all of it has been learnt from, and its grants are settled
        self._was_read_at: int | None = None  # where in the piece's buffer the frame begins, if it was read whole

    def forget(self) -> None:
        """Forget the remembered answer, since another one has passed unread."""
        self._last_empty = None

    def read(self, window: Window) -> Step:
        """Return what to do next. Raises ProtocolError for an answer that must be altered and cannot be read."""
        pending, total = self._pending, self._total
        if self._walk is not None:
            return self._go_on(window, self._walk)
        form = self._form = form_of(pending.version)
        least = form.least_bytes
        if window.end - window.start < total and total >= least:
            wanted = min(least + MAX_COUNT_BYTES, total)
            if window.size < wanted:
                return self._as_it_comes() if window.ended else Need(wanted, total - window.size)
        if total < least or (form.is_flexible and window.buffer[window.start + FIXED_HEAD_BYTES] != 0):
            if pending.replays:
                raise ProtocolError("the leader's response ends within its header")
            self._in_flight.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            return self._as_it_comes()
        # Everything before the topics is in the window, and nothing has gone on yet.
        last, self._last_empty = self._last_empty, None
        self._additions.begin(pending, total)
        discards = pending.must_discard(self._now)
        if discards and not self._buffer.begin(pending, total):
            pending.passes_all()
            discards = False
        if not discards and window.end - window.start >= total:
            step = self._whole(window, last)
            if step is not None:
                return step
            self._was_read_at = window.start
        self._unfinished.watch(None, 0)
        row = ResponseEntry if discards else tuple
        self._walk = FrameWalk(window, version=pending.version, size=total - LENGTH_PREFIX_BYTES, row=row)
        return self._go_on(window, self._walk)

    def on_sent(self) -> bool:
        """Learn from the entries of bytes that have been sent. Return True if the answer has ended with
        them."""
        if self._settled:
            return True
        is_all = self._passed >= self._total and not self._to_splice and not self._additions.owed
        self._learn()
        if is_all:
            self._settle()
        return is_all

    def _learn(self) -> None:
        unfinished, walk = self._unfinished, self._walk
        if unfinished.ends is not None and unfinished.has_gone(self._passed):
            self._now = self._clock()
            unfinished.learn(self._pending, self._now)
        rows, self._rows = self._rows, ()
        if not rows:
            return
        if walk is not None and not self._buffer.active and walk.unseen(self._passed) > 0:
            unfinished.keep(rows[-1], self._rows_in, self._rows_end, ends=walk.unseen(0))
            rows = rows[:-1]
        self._pending.forwards(rows, self._rows_in, self._rows_end, self._now)

    def _settle(self) -> None:
        pending, read_at = self._pending, self._was_read_at
        pending.replicas.answered_at = self._now
        if read_at is not None and not pending.has_news and (teaches := pending.teaches()) is not None:
            self._last_empty = (
                pending.version,
                self._rows_in[read_at + FIXED_HEAD_BYTES : read_at + self._total],
                teaches,
            )
        if self._buffer.active:
            self._buffer.end()
        if pending.grants:
            pending.finish(self._now)
        self._settled = True

    def lost(self, now: float) -> None:
        """End an answer whose connection has ended, perhaps in the middle of it.

        If some of a partition's records have gone on, all are accounted for: a follower that breaks off again and again
        gets no bytes that no budget pays for.
        """
        self._unfinished.learn(self._pending, now)
        if self._rows and not self._buffer.active:
            gone = self._in_flight.relayed.response_bytes - self._gone_at
            begun = [row for row in self._rows if ResponseEntry(*row).records_at < gone]
            self._pending.forwards(begun, self._rows_in, self._rows_end, now)
        self._buffer.end()
        self._pending.lost(now)

    def _as_it_comes(self) -> int:
        """Pass the answer on unread, since it cannot be understood, and learn nothing from it."""
        self._pending.lost(self._now)
        self._last_empty = None
        self._passed = self._total
        return self._total

    def _whole(self, window: Window, last: tuple[int, bytes, int | None] | None) -> Step | None:
        """Read an answer that is whole in the window, as most are, and let it go on; None if it is long or cannot be
        read."""
        pending, start, end, version = self._pending, window.start, window.start + self._total, self._pending.version
        if last is not None and last == (version, window.buffer[start + FIXED_HEAD_BYTES : end], pending.teaches()):
            self._last_empty, topics_end = last, end  # what has no session has nothing behind its topics
        elif self._total > LONG_FRAME_BYTES:
            return None  # it is read and goes on in pieces of some `MAX_ROWS` partitions
        else:
            form = self._form
            try:
                rows, head = walk_whole(form.walk, window.buffer, start + form.body_at, end)
            except ProtocolError:
                return None
            if pending.translation is not None:
                pending.answered(*says(head))
            self._go(rows, window, end)
            topics_end, self._was_read_at = head[TOPICS_END], start
        self._passed = self._total
        additions = self._additions
        if not additions.owed:
            return self._total
        return _edited(window, (0, self._total), [additions.edit_head(window), additions.add(topics_end - start)])

    def _go_on(self, window: Window, walk: FrameWalk) -> Step:
        passed = self._passed
        if self._to_splice:
            beyond, self._to_splice = self._to_splice, 0
            self._passed += beyond
            return beyond
        additions = self._additions
        if additions.owed and walk.topics_end == passed:
            return Replace(0, additions.add(passed).insert)
        if passed:
            if window.start == window.end:
                return Need(1, self._total - passed)
            self._now = self._clock()
        rows = self._step(walk)
        unseen = self._unseen(rows, window, walk)
        if not (unseen and window.size):
            return Need(window.size + 1, self._total - passed - window.size)
        # Bytes that were only peeked at are still in the socket, so they go in one splice with the records after them.
        as_one = window.is_peeked and not additions.owed and not self._buffer.active
        seen = unseen if as_one else min(unseen, window.size)
        self._go(rows, window, window.end)
        self._passed += seen
        if self._buffer.active:
            return self._buffer.keep_piece(window, (passed, passed + seen), rows, walk.topics_end)
        self._to_splice = unseen - seen if unseen - seen >= MIN_SPLICED_BYTES else 0
        changes = [additions.edit_head(window)] if additions.owed and not passed else []
        changes += additions.due(walk.topics_end, passed + seen)
        return _edited(window, (passed, passed + seen), changes) if changes else seen

    def _unseen(self, rows: Sequence[ResponseEntry], window: Window, walk: FrameWalk) -> int:
        """Return how many bytes after those that have passed may go on, whether they are in the window or not."""
        passed, unfinished = self._passed, self._unfinished
        unseen = walk.unseen(passed)
        if self._buffer.active:
            return unseen
        if rows and unseen > window.size:
            entry = ResponseEntry(*rows[-1])
            unfinished.watch(self._pending.watch(entry), entry.records_at - window.start + passed)
        most = unfinished.most(window, passed)
        return unseen if most is None else min(unseen, most)

    def _go(self, rows: Sequence[ResponseEntry], window: Window, end: int) -> None:
        """Queue entries whose bytes, up to `end` in the window, go on now or are kept."""
        self._rows, self._rows_in, self._rows_end = rows, window.buffer, end
        self._gone_at = self._in_flight.relayed.response_bytes - window.start
        if self._pending.throttle.charges_on_send:
            self._pending.charge_on_send(rows, self._now)

    def _step(self, walk: FrameWalk) -> list[ResponseEntry]:
        """Return the next entries. What cannot be read passes as it is, unless it is being altered (fail open)."""
        try:
            rows = walk.step(self._passed)
        except ProtocolError:
            if self._pending.replays or self._buffer.active:
                raise
            self._in_flight.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            self._pending.lost(self._now)  # it opens no session either
            self._was_read_at = None  # an equal one is read, and counted, again
            return walk.give_up()
        if not self._passed:
            self._pending.answered(*walk.says)
        return rows


def _edited(window: Window, piece: tuple[int, int], changes: Sequence[Edit]) -> Replace:
    data, _ = response_edits.applied(window.memory, window.start - piece[0], piece, changes)
    return Replace(piece[1] - piece[0], data)
