"""A flat, resumable parser for the data path, generated from the Construct Structs.

Plain Construct costs about ten microseconds a partition; these walkers a few tenths. They are generated
from the same Structs, so the wire format is written down once; tests hold both parsers equal. Must not know
where bytes come from.

**Protocol of a walker.** ``walk = response_walker(version)``; then::

    steps = walk(buffer, limit, emit, head)   # limit: bytes of the whole body, so a frame's size less its
    header's next(steps)                               # primes it; what it yields means nothing at =
    steps.send((pos, end))               # the next byte of the body is buffer[pos]; valid bytes end at end

Each ``at`` that comes back says: everything before ``at`` is done with, and more bytes are needed from
``at`` on. ``at`` may lie beyond ``end``: the surplus is bytes (records) that nobody needs to look at. The
caller may move or overwrite what the buffer held before ``at``, read more, and sends where ``at`` now is
and where valid bytes end (which may be the same or in the next frame: a walker never looks past its own
body). When the body is done, ``StopIteration.value`` is the position after it, beyond ``end`` if its last
records are not all there; the caller compares it with the end of the frame. At most LARGEST_WAIT_BYTES from
``at`` on are needed at once.

``emit`` gets one row per partition, as soon as its records' place and size are known and before they are
stepped over. Positions in a row are positions in the buffer at that moment. If the buffer was moved since
the row's entry began (only aborted transactions make that possible), ``entry_at`` is where the entry would
begin now, perhaps below 0: ``records_at - entry_at`` is right in every case. A topic that is not in
``topics`` (None: every topic is) is stepped over without a row.

``head`` gets, by field name, what stands before the topics: numbers. Of a request also
``forgotten_topics_data``, a list of (topic, partitions, …), and the bytes of its tagged fields, at TAGS, and
of its topics' at BLOCK_TAGS, by topic, where a topic has any. ``NAME_end`` is where top-level field NAME
ended, in the buffer as it was then, for every field from the topics on.

What is stepped over is measured, not read: that rack_id is not UTF-8, or that a tagged field does not hold what
it should, only plain Construct says.

Invariant: nothing at or beyond ``end`` is read; a count or length that the rest of the body cannot hold
raises ProtocolError when it is read, before anything is done ``count`` times.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ..errors import ProtocolError
from ..pacing import pause
from ..walkers.compiler import compile_walker
from ..walkers.rows import BLOCK_TAGS, Rows
from ..wire.layout import TAGS
from .tables import request_layout, response_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator

    from ..wire.buffers import Bytes
    from ..wire.topics import Topic

Head: TypeAlias = dict[str, Any]


class Walk(Protocol):
    """A walker; see the top of this module."""

    def __call__(
        self,
        buffer: Bytes,
        limit: int,
        emit: Callable[[Any], None],
        head: Head,
        topics: Container[Topic] | None = None,
        /,
    ) -> Generator[int, tuple[int, int], int]: ...


STEP_BYTES = 4096
"""Of a whole body, walked before others may have their turn: some hundred partitions."""
LARGEST_WAIT_BYTES = 2**15  # a string of 2**15 - 1 bytes; every group of fixed fields is far smaller


class RequestEntry(NamedTuple):
    """One partition of a Fetch request. ``entry_at:entry_end`` is the partition's entry in the buffer."""

    topic: Topic
    partition: int
    current_leader_epoch: int  # -1 before v9
    fetch_offset: int
    partition_max_bytes: int
    entry_at: int
    entry_end: int


class ResponseEntry(NamedTuple):
    """One partition of a Fetch response; its records are ``records_size`` bytes from ``records_at``."""

    topic: Topic
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int  # -1 before v5
    entry_at: int
    records_at: int
    records_size: int  # -1: null


REQUEST_ROWS = Rows(
    RequestEntry,
    path=("topics", "partitions"),
    columns=(
        "topic",
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "partition_max_bytes",
        "entry_at",
        "entry_end",
    ),
    absent={"current_leader_epoch": -1},
    head=("forgotten_topics_data", TAGS, BLOCK_TAGS),
)
RESPONSE_ROWS = Rows(
    ResponseEntry,
    path=("responses", "partitions"),
    columns=(
        "topic",
        "partition_index",
        "error_code",
        "high_watermark",
        "log_start_offset",
        "entry_at",
        "records_at",
        "records_size",
    ),
    absent={"log_start_offset": -1},
)


@functools.cache
def request_walker(version: int, row: type = RequestEntry) -> Walk:
    """The walker of Fetch requests; ProtocolError for an unsupported version.

    It emits rows with the attributes of RequestEntry; or, with ``row=tuple``, plain tuples of the same values,
    which take a third off the walk.
    """
    walk: Walk = compile_walker(request_layout(version), REQUEST_ROWS._replace(row=row))
    return walk


@functools.cache
def response_walker(version: int, row: type = ResponseEntry) -> Walk:
    """The walker of Fetch responses, in the same way; ProtocolError for an unsupported version."""
    walk: Walk = compile_walker(response_layout(version), RESPONSE_ROWS._replace(row=row))
    return walk


def walk_whole(
    walk: Walk, buffer: Bytes, at: int, end: int, topics: Container[Topic] | None = None
) -> tuple[list[Any], Head]:
    """(rows, head) of the body that is exactly ``buffer[at:end]``, else ProtocolError."""
    rows: list[Any] = []
    head: Head = {}
    steps = walk(buffer, end - at, rows.append, head, topics)
    next(steps)
    until = at
    try:
        while True:
            until = min(max(until, at) + STEP_BYTES, end)
            at = steps.send((at, until))
            if until == end:
                return rows, head
            pause()
    except StopIteration as done:
        if done.value != end:
            raise ProtocolError(f"{end - done.value} bytes follow the end of the message") from None
    return rows, head
