"""A Fetch of many partitions is decided in slices, so that other connections have their turns in between.

At most `buffers.MOST_IN_SLICES` such requests of all connections are in work at once; the others wait for their turn.
A decision in slices never overlaps with an answer of the same connection: both change what is known of its replicas.
No I/O.

Invariants: from the first slice to the last, or to the end of the connection, the request is counted in
`Buffers.in_slices`; the bytes of a request that waits for its first slice stay in the window.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from protocol.pacing import FEW

from .slices import Slices
from .transport import HELD, TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from .deciding import Deciding
    from .exchange import Exchange
    from .reading import Step

LONG_FETCH_BYTES = 4096
"""A request of some hundred partitions: to read it and to decide about it may take as long as a whole turn."""


class InSlices:
    """Decides one connection's requests at once if they are short, in slices if they are long."""

    __slots__ = ("_deciding", "_exchange", "_is_counted", "_is_waiting", "_slices")

    def __init__(self, exchange: Exchange, deciding: Deciding) -> None:
        self._exchange = exchange
        self._deciding = deciding
        self._slices: Slices[Step] = Slices()
        self._is_counted = False
        """This connection's request is counted in `Buffers.in_slices`."""
        self._is_waiting = False
        """This connection's request waits, because as many are in slices as may be."""

    @property
    def has_begun(self) -> bool:
        """A request is in slices, or waits until it may be."""
        return self._is_waiting or self._slices.busy

    @property
    def has_many_replicas(self) -> bool:
        """Whether there are many replicas of which something is to be decided, or looked at again."""
        replicas = self._exchange.link.replicas
        return len(replicas.behind) + len(replicas.new) + len(replicas.changed) > FEW

    def takes_long(self, total: int) -> bool:
        """Whether a Fetch of `total` bytes that equals the last one may take longer than a turn all the same: there are
        many replicas, or a journal is told of each partition (5 ms for 20 000)."""
        return self.has_many_replicas or (total > LONG_FETCH_BYTES and self._exchange.link.throttle.ledger is not None)

    def decide(self, work: Callable[[], Step], total: int) -> Step:
        """Do `work`, about a frame of `total` bytes, or as much of it as a slice holds. Raises what it raises."""
        exchange = self._exchange
        if total <= LONG_FETCH_BYTES and not self.has_many_replicas:
            return work()
        exchange.waits_for_answer = exchange.answering
        if exchange.answering:
            return HELD
        self._is_waiting = not exchange.buffers.has_room_for_slices
        if self._is_waiting:
            return TURN
        exchange.buffers.in_slices += 1
        self._is_counted = True
        return self._sliced(self._slices.run(work))

    def go_on(self) -> Step | None:
        """Go on with the request that is in slices, or decide once more the one that is held. None: a request that
        waited may begin now, and is to be read from the window."""
        held = self._deciding.held
        if self._slices.busy:
            return self._sliced(self._slices.go_on())
        if self._is_waiting and not self._exchange.buffers.has_room_for_slices:
            return TURN
        self._is_waiting = False
        if held is None:
            return None
        return self.decide(partial(self._deciding.again, held), 0) if self._deciding.due else HELD

    def lost(self) -> None:
        """The connection has ended."""
        self._slices.close()
        self._over()

    def _sliced(self, step: Step) -> Step:
        exchange = self._exchange
        if not self._slices.busy:
            self._over()
        exchange.slicing = self._slices.busy
        exchange.deciding = exchange.slicing or self._deciding.held is not None
        return step

    def _over(self) -> None:
        if self._is_counted:
            self._exchange.buffers.in_slices -= 1
            self._is_counted = False
