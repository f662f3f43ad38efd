"""The walkers of Fetch: which partitions' fields they tell, and the walk of a whole body.

`protocol.walkers` says what a walker is, and how it is made of a message's Struct. Must not know where bytes come from.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ..errors import ProtocolError
from ..walkers.compiler import compile_walker
from ..walkers.rows import BLOCK_TAGS, Rows
from ..wire.layout import TAGS
from .tables import SUPPORTED_FETCH_VERSIONS, request_layout, response_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..wire.framing import Bytes
    from ..wire.topics import Topic

Head: TypeAlias = dict[str, Any]


class Walk(Protocol):
    """A walker; `protocol.walkers` says how to use one."""

    at_once: Callable[[Bytes, int, int, Callable[[Any], None], Head], int]

    def __call__(
        self,
        buffer: Bytes,
        limit: int,
        emit: Callable[[Any], None],
        head: Head,
        /,
    ) -> Generator[int, tuple[int, int], int]: ...


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
    last_stable_offset: int  # -1 before v4
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
        "last_stable_offset",
        "log_start_offset",
        "entry_at",
        "records_at",
        "records_size",
    ),
    absent={"last_stable_offset": -1, "log_start_offset": -1},
)


@functools.cache
def request_walker(version: int, row: type = RequestEntry) -> Walk:
    """Return the walker of Fetch requests; ProtocolError for an unsupported version.

    It emits rows with the attributes of RequestEntry; or, with ``row=tuple``, plain tuples of the same values,
    which take a third off the walk.
    """
    walk: Walk = compile_walker(request_layout(version), REQUEST_ROWS._replace(row=row))
    return walk


@functools.cache
def response_walker(version: int, row: type = ResponseEntry) -> Walk:
    """Return the walker of Fetch responses, in the same way; ProtocolError for an unsupported version."""
    walk: Walk = compile_walker(response_layout(version), RESPONSE_ROWS._replace(row=row))
    return walk


def prepare_walkers(version: int) -> None:
    """Make both walkers of a version now. It takes 3 ms, for which otherwise the first frames of that version would
    wait. For a version that is not supported nothing is done."""
    if version in SUPPORTED_FETCH_VERSIONS:
        request_walker(version)
        response_walker(version, tuple)


def walk_whole(walk: Walk, buffer: Bytes, at: int, end: int) -> tuple[list[Any], Head]:
    """Return (rows, head) of the body that is exactly ``buffer[at:end]``, else ProtocolError."""
    rows: list[Any] = []
    head: Head = {}
    after = walk.at_once(buffer, at, end, rows.append, head)
    if after != end:
        raise ProtocolError(f"{end - after} bytes follow the end of the message")
    return rows, head
