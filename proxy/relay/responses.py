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
from protocol.fetch_response import topic_count_at
from protocol.framing import LENGTH_PREFIX_BYTES, frame_size
from protocol.topic_blocks import count_bytes
from protocol.walker import ResponseEntry

from .copying import LEAST_SPLICED_BYTES, ConnectionEndedError, copy, copy_rest, send
from .eager import Eager
from .exchange import MAX_FRAME_BYTES, Undecoded
from .gather import Gathered
from .pipe import Pipe, open_pipe
from .replaying import Replays, encode, grown_head
from .walk import CORRELATION_ID_BYTES, FrameWalk, header_bytes
from .whole_answers import WholeAnswers
from .whole_frames import passable_responses
from .window import READ_AHEAD_BYTES, Window

if TYPE_CHECKING:
    from ..settings import LimitSettings
    from ..throttle.outlook import Outlook
    from .exchange import Exchange
    from .leg import Leg

WINDOW_BYTES = 256 * 1024
"""Copying through 256 KiB costs least CPU per byte; pages of it that stay unused cost no memory."""
LARGE_BYTES = 512 * 1024
"""After records so large the next entry's are large, too, as a rule: little is read ahead of them, which could not be
spliced any more. 8 x 1 MB to a reader with Kafka's buffers: twice the throughput; 40 x 200 KB are better off copied."""
LEAST_LOOKED_AT_BYTES = 64 * 1024
"""To look at so much and splice it costs less than to copy it there and back."""
MOST_VAIN_LOOKS = 4
"""In one frame. A leader with Kafka's socket buffers never has so much on its way."""
INT32 = struct.Struct(">i")
MOST_COUNT_BYTES = 4
"""Beyond its first byte, of a count in flexible versions."""


class ResponseRelay:
    """One direction of one connection; `run` ends when the leader has finished sending."""

    def __init__(self, exchange: Exchange, *, leader: Leg, follower: Leg, limits: LimitSettings) -> None:
        self._exchange = exchange
        self._follower = follower
        self._limits = limits
        self._window = self.window = Window(leader, WINDOW_BYTES)
        self._eager = Eager(self._window, follower, self._take, count=exchange.passed_response, sent=self._sent)
        self._answers = WholeAnswers(self._window, exchange)
        self._pipe: Pipe | None = None
        self._may_splice = True

    async def run(self) -> None:
        """Raises OSError when either side is broken, ProtocolError when an altered response cannot be finished."""
        try:
            await self._relay()
        finally:
            self._answers.lost(trio.current_time())
            if self._pipe is not None:
                self._pipe.close()

    async def _relay(self) -> None:
        exchange, window = self._exchange, self._window
        # Whether frames can be told apart is known once the leader has something to answer, not before.
        while await self._next() and not exchange.opaque:
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

    async def _next(self) -> bool:
        """Have the beginning of a frame in the window that is not to be taken at once; False at the end."""
        await self._eager.wait()
        await self._window.leg.pause_if_over()
        return await self._window.fill(LENGTH_PREFIX_BYTES)

    def _take(self) -> bool:
        """Deal with what is whole at the window's start, if that needs no waiting."""
        window, exchange = self._window, self._exchange
        if exchange.opaque:
            return False
        data = self._answers.take(trio.current_time()) if exchange.owes else None
        if data is None:
            size = passable_responses(window, exchange)
            if not size:
                return False
            data = window.view(size)
            window.take(size)
        return self._eager.send(data)

    def _sent(self) -> None:
        """What was taken at once has gone on, all of it."""
        self._answers.sent()
        self._exchange.responded()

    async def _frame(self, size: int) -> None:
        window, exchange = self._window, self._exchange
        correlation_id = None
        if size >= CORRELATION_ID_BYTES and await window.fill(LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES):
            (correlation_id,) = INT32.unpack_from(window.buffer, window.start + LENGTH_PREFIX_BYTES)
        outlook = exchange.received(correlation_id, trio.current_time())
        self._answers.forget()
        if outlook is None:
            await self._pass(LENGTH_PREFIX_BYTES + size)
        else:
            try:
                await self._answer(outlook, size)
            except BaseException:
                outlook.lost(trio.current_time())
                raise
            outlook.finish(trio.current_time())
        exchange.responded()

    async def _pass(self, size: int) -> None:
        await copy(self._window, self._follower, size, self._exchange.passed_response, pipe=self._pipe_for(size))

    async def _answer(self, outlook: Outlook, size: int) -> None:
        """The answer to a request that was decided."""
        if not await self._has_head(outlook, size):
            outlook.lost(trio.current_time())
            await self._pass(LENGTH_PREFIX_BYTES + size)
        elif self._is_over_quota(outlook, size):
            try:
                await self._gather(outlook, size)
            finally:
                self._exchange.buffers.release(size)
        else:
            await self._watch(outlook, size)

    async def _has_head(self, outlook: Outlook, size: int) -> bool:
        """Have what stands before the topics in the window; False if that cannot be."""
        window, total = self._window, LENGTH_PREFIX_BYTES + size
        least = LENGTH_PREFIX_BYTES + topic_count_at(outlook.version) + len(count_bytes(outlook.version, 0))
        if total >= least:
            if not await window.fill(min(least + MOST_COUNT_BYTES, total)):
                return False
            tags_at = window.start + LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES
            if header_bytes(outlook.version) == CORRELATION_ID_BYTES or window.buffer[tags_at] == 0:
                return True
        if outlook.replays:
            raise ProtocolError("the leader's response ends within its header")
        self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
        return False

    def _is_over_quota(self, outlook: Outlook, size: int) -> bool:
        """Decide once the response begins to arrive whether records must be discarded; if so room is reserved."""
        if not outlook.must_discard(trio.current_time()):
            return False
        if size > self._limits.max_substitution_bytes:
            self._exchange.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            return False
        if not self._exchange.buffers.reserve(size):
            self._exchange.pass_undecoded(Undecoded.MEMORY)
            return False
        return True

    async def _watch(self, outlook: Outlook, size: int) -> None:
        """Stream the frame on as it comes; what is replayed is added where its topics end."""
        window = self._window
        walk = FrameWalk(window, version=outlook.version, size=size)
        replays = encode(outlook.version, outlook.replays)
        total, passed, owed = LENGTH_PREFIX_BYTES + size, 0, replays.encoded
        looks = 0 if owed else MOST_VAIN_LOOKS
        while passed < total:
            rows = self._step(walk, outlook, passed)
            if passed == 0:
                passed = await self._begin(walk, outlook, size, replays)
            if rows:
                outlook.forwards(rows, window.buffer, window.end, trio.current_time())
            if owed and walk.topics_end is not None and walk.topics_end - passed <= window.size:
                await self._send(walk.topics_end - passed)
                passed = walk.topics_end
                await self._add(owed)
                owed = b""
            passable = walk.passable(passed)
            await self._send(passable)
            passed += passable
            if walk.has_more:
                await window.leg.pause_if_over()
                continue
            spliced = await self._splice(walk.unseen(passed))
            passed += spliced
            if spliced >= LARGE_BYTES:
                await self._more(passed, total, at_most=READ_AHEAD_BYTES)
            elif looks and not window.size:
                looks -= 1
                passed = await self._look_on(walk, outlook, passed, total)
            else:
                await self._more(passed, total, at_most=window.capacity)
        if owed:
            await self._add(owed)

    async def _look_on(self, walk: FrameWalk, outlook: Outlook, passed: int, total: int) -> int:
        """Walk copies of what the socket holds, and have that spliced, as long as it is worth it; return how much of
        the frame has passed by then. If it is not all, there is something in the window."""
        window, pipe = self._window, self._pipe_for(total - passed)
        while pipe is not None and passed < total and await window.look():
            await self._learn(walk, outlook, passed)
            unseen = walk.unseen(passed)
            if unseen < LEAST_LOOKED_AT_BYTES:
                window.take_looked()
                return passed
            window.forget_looked()
            await pipe.move(window.leg, self._follower, unseen, self._exchange.passed_response)
            passed += unseen
        await self._more(passed, total, at_most=window.capacity)
        return passed

    async def _learn(self, walk: FrameWalk, outlook: Outlook, passed: int) -> None:
        """Walk all that is in the window, and let others go first whenever that takes long."""
        while True:
            rows = self._step(walk, outlook, passed)
            if rows:
                outlook.forwards(rows, self._window.buffer, self._window.end, trio.current_time())
            if not walk.has_more:
                return
            await self._window.leg.pause_if_over()

    async def _begin(self, walk: FrameWalk, outlook: Outlook, size: int, replays: Replays) -> int:
        """The head of the frame is in the window: take what it says, and have it say that `replays` are added.

        Returns how many bytes of the frame went on.
        """
        outlook.answered(*walk.says)
        if not replays.topics:
            return 0
        window = self._window
        head, replaced = grown_head(outlook.version, window.buffer, (window.start, window.end), replays, size=size)
        if len(head) == replaced:
            window.buffer[window.start : window.start + replaced] = head
            return 0
        await self._add(head)
        window.take(replaced)
        return replaced

    async def _send(self, size: int) -> None:
        if size > 0:
            await send(self._window, self._follower, size, self._exchange.passed_response)

    async def _add(self, data: bytes) -> None:
        """What is not the leader's."""
        await self._follower.send_all(data)
        self._exchange.passed_response(len(data))

    async def _gather(self, outlook: Outlook, size: int) -> None:
        """Read the frame whole but for the records that are over quota, then send it."""
        window = self._window
        gathered = Gathered(outlook, window)
        walk = FrameWalk(window, version=outlook.version, size=size, row=ResponseEntry)
        total, passed = LENGTH_PREFIX_BYTES + size, 0
        while passed < total:
            now, rows = trio.current_time(), walk.step(passed)
            if passed == 0:
                outlook.answered(*walk.says)
            for row in rows:
                if outlook.withholds(row):
                    gathered.substitute(row, passed, now)
                else:
                    outlook.forwards((row,), window.buffer, window.end, now)
            passable = walk.passable(passed)
            gathered.take(passable, passed)
            passed += passable
            if walk.has_more:
                await window.leg.pause_if_over()
                continue
            await self._more(passed, total, at_most=window.capacity)
        after_topics = 0 if walk.topics_end is None else total - walk.topics_end
        await self._add(gathered.frame(encode(outlook.version, outlook.replays), after_topics=after_topics))

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

    async def _more(self, passed: int, total: int, *, at_most: int) -> None:
        if passed < total and not await self._window.more(at_most):
            raise ConnectionEndedError(f"the leader closed {total - passed} bytes before the end of a response")

    def _step(self, walk: FrameWalk, outlook: Outlook, passed: int) -> list[ResponseEntry]:
        """Step on. Where nothing is altered, a response that cannot be read passes as it is (fail open)."""
        try:
            return walk.step(passed)
        except ProtocolError:
            if outlook.replays:
                raise
            self._exchange.pass_undecoded(Undecoded.MALFORMED_RESPONSE)
            outlook.lost(trio.current_time())
            return walk.give_up()
