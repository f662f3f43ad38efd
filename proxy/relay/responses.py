"""From the leader to the follower: frame by frame, each matched with its request by correlation id.

Most responses pass without a look. One whose request asked for throttled partitions is *watched* as it streams by:
high watermarks are learnt, bytes accounted for, and the entries of omitted partitions appended. Only when records
are over quota by the time they arrive is a response *gathered*: its kept parts in memory, those records discarded.
Which of the two is known before the first byte goes on, so the common case never buffers.

Invariant: what the follower receives is what the leader sent, plus replayed entries, minus records that were
replaced by a length of 0; nothing is ever held back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.fetch_response import replayed_topics, topic_count_at
from protocol.framing import LENGTH_PREFIX_BYTES, frame_size

from .copying import LEAST_SPLICED_BYTES, ConnectionEndedError, copy, copy_rest, send
from .exchange import MAX_FRAME_BYTES, Undecoded
from .gather import Gathered
from .pipe import Pipe, open_pipe
from .walk import CORRELATION_ID_BYTES, FrameWalk
from .whole_frames import passable_responses
from .window import Window

if TYPE_CHECKING:
    import mmap

    from protocol.walker import ResponseEntry

    from ..settings import LimitSettings
    from ..throttle.outlook import Outlook
    from .exchange import Exchange
    from .leg import Leg

WINDOW_BYTES = 256 * 1024
"""Copying through 256 KiB costs least CPU per byte; pages of it that stay unused cost no memory."""
INT32 = struct.Struct(">i")


class ResponseRelay:
    """One direction of one connection; `run` ends when the leader has finished sending."""

    def __init__(self, exchange: Exchange, *, leader: Leg, follower: Leg, limits: LimitSettings) -> None:
        self._exchange = exchange
        self._follower = follower
        self._limits = limits
        self._window = Window(leader, WINDOW_BYTES)
        self._pipe: Pipe | None = None
        self._may_splice = True

    async def run(self) -> None:
        """Raises OSError when either side is broken, ProtocolError when an altered response cannot be finished."""
        try:
            await self._relay()
        finally:
            if self._pipe is not None:
                self._pipe.close()

    async def _relay(self) -> None:
        exchange, window = self._exchange, self._window
        # Whether frames can be told apart is known once the leader has something to answer, not before.
        while await window.fill(LENGTH_PREFIX_BYTES) and not exchange.opaque:
            if passable := passable_responses(window, exchange):
                await send(window, self._follower, passable, exchange.passed_response)
                exchange.responded()
                continue
            try:
                size = frame_size(window.buffer, window.start, maximum=MAX_FRAME_BYTES)
            except ProtocolError:
                exchange.turn_opaque(Undecoded.FRAMING)
            else:
                await self._frame(size)
        await copy_rest(window, self._follower, exchange.passed_response)
        self._follower.finish_sending()

    async def _frame(self, size: int) -> None:
        window, exchange = self._window, self._exchange
        correlation_id = None
        if size >= CORRELATION_ID_BYTES and await window.fill(LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES):
            (correlation_id,) = INT32.unpack_from(window.buffer, window.start + LENGTH_PREFIX_BYTES)
        outlook = exchange.received(correlation_id, trio.current_time())
        try:
            if outlook is None or not await self._has_topic_count(outlook, size):
                total = LENGTH_PREFIX_BYTES + size
                await copy(window, self._follower, total, exchange.passed_response, pipe=self._pipe_for(total))
            elif self._is_over_quota(outlook, size):
                await self._gather(outlook, size)
            else:
                await self._watch(outlook, size)
        finally:
            if outlook is not None:
                outlook.finish(trio.current_time())
        exchange.responded()

    async def _has_topic_count(self, outlook: Outlook, size: int) -> bool:
        """Have the response's header and topic count in the window; False if it is too short to have them."""
        header = LENGTH_PREFIX_BYTES + topic_count_at(outlook.version) + INT32.size
        if LENGTH_PREFIX_BYTES + size >= header:
            return await self._window.fill(header)
        if outlook.replays:
            raise ProtocolError("the leader's response ends within its header")
        self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
        return False

    def _is_over_quota(self, outlook: Outlook, size: int) -> bool:
        """Decide once the response begins to arrive whether records must be discarded."""
        if not outlook.must_discard(trio.current_time()):
            return False
        if size > self._limits.max_substitution_bytes:
            self._exchange.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            return False
        return True

    async def _watch(self, outlook: Outlook, size: int) -> None:
        """Stream the frame on as it comes; the appended replays are part of the length it announces."""
        window = self._window
        walk = FrameWalk(window, version=outlook.version, size=size)
        topics, replays = replayed_topics(outlook.version, outlook.replays)
        if size + len(replays) > MAX_FRAME_BYTES:
            raise ProtocolError("the leader's response leaves no room for what was omitted")
        total, passed = LENGTH_PREFIX_BYTES + size, 0
        while passed < total:
            rows = self._step(walk, passed, alters=bool(replays))
            if rows:
                outlook.forwards(rows, window.buffer, window.end, trio.current_time())
            if passed == 0 and replays:
                INT32.pack_into(window.buffer, window.start, size + len(replays))
                _add_topics(window.buffer, window.start, version=outlook.version, topics=topics)
            passable = walk.passable(passed)
            await send(window, self._follower, passable, self._exchange.passed_response)
            passed += passable
            passed += await self._splice(walk.unseen(passed))
            await self._more(passed, total)
        if replays:
            await self._follower.send_all(replays)
            self._exchange.passed_response(len(replays))

    async def _gather(self, outlook: Outlook, size: int) -> None:
        """Read the frame whole but for the records that are over quota, then send it."""
        window = self._window
        gathered = Gathered(outlook, window)
        walk = FrameWalk(window, version=outlook.version, size=size)
        total, passed = LENGTH_PREFIX_BYTES + size, 0
        while passed < total:
            now = trio.current_time()
            for row in walk.step(passed):
                if outlook.withholds(row):
                    gathered.substitute(row, passed, now)
                else:
                    outlook.forwards((row,), window.buffer, window.end, now)
            passable = walk.passable(passed)
            gathered.take(passable, passed)
            passed += passable
            await self._more(passed, total)
        topics, replays = replayed_topics(outlook.version, outlook.replays)
        frame = gathered.frame(replays)
        _add_topics(frame, 0, version=outlook.version, topics=topics)
        await self._follower.send_all(frame)
        self._exchange.passed_response(len(frame))

    async def _splice(self, size: int) -> int:
        """Pass on the records that are not in the window, if they are worth a splice; return how many bytes."""
        pipe = self._pipe_for(size)
        if pipe is None or self._window.size:
            return 0
        await pipe.move(self._window.leg, self._follower, size, self._exchange.passed_response)
        return size

    def _pipe_for(self, size: int) -> Pipe | None:
        """Return this direction's pipe, opened when first needed; None where so many bytes are to be copied."""
        if size < LEAST_SPLICED_BYTES or not self._may_splice:
            return None
        if self._pipe is None:
            self._pipe = open_pipe()
            self._may_splice = self._pipe is not None
        return self._pipe

    async def _more(self, passed: int, total: int) -> None:
        if passed < total and not await self._window.more(self._window.capacity):
            raise ConnectionEndedError(f"the leader closed {total - passed} bytes before the end of a response")

    def _step(self, walk: FrameWalk, passed: int, *, alters: bool) -> list[ResponseEntry]:
        """Step on. Where nothing is altered, a response that cannot be read passes as it is (fail open)."""
        try:
            return walk.step(passed)
        except ProtocolError:
            if alters:
                raise
            self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            return walk.give_up()


def _add_topics(frame: mmap.mmap | bytearray, start: int, *, version: int, topics: int) -> None:
    at = start + LENGTH_PREFIX_BYTES + topic_count_at(version)
    (count,) = INT32.unpack_from(frame, at)
    INT32.pack_into(frame, at, count + topics)
