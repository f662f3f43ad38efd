"""One question by Metadata, put to one broker after the other until one answers.

Knows in which versions brokers can be asked, how long an answer may take, and in which thread it is read. Its
callers know what is asked for, and what an answer means. Invariant: an answer that takes long to read is read by a
thread, and asking takes no more than its share of the time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from protocol.metadata import METADATA_VERSIONS_BY_ID, NAMED_METADATA_VERSIONS, metadata_request
from protocol.wire.apis import API_METADATA

from ..threads import in_thread
from .broker_asking import ASKING_ERRORS, CLIENT_ID, READING_THREADS, answer_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from protocol.wire.topics import Topic

    from .broker_asking import Broker

ANSWER_SECONDS = 5.0
TOPICS_AT_ONCE = 50
"""Topics per request. The answer about 50 topics of 1000 partitions each takes a thread half a second to read."""
MOST_BYTES = 16 * 1024 * 1024
LARGE_BYTES = 4 * 1024
"""An answer of this size or more is read by a thread: it has a hundred partitions, and reading it takes two
milliseconds."""
_Found_co = TypeVar("_Found_co", covariant=True)
_Found = TypeVar("_Found")


class NobodyAnswersError(Exception):
    """No broker answered; the text says what went wrong with the one that was asked last."""


class Reads(Protocol[_Found_co]):
    """Reads the frame of an answer of that version. Raises ProtocolError."""

    def __call__(self, frame: bytes, *, version: int) -> _Found_co: ...


async def first_answer(brokers: Iterable[Broker], question: Callable[[Broker], Awaitable[_Found]]) -> _Found:
    """Return what the first broker says that answers `question`. Raises NobodyAnswersError."""
    failure = "there is no broker to ask"
    for broker in tuple(brokers):  # more may become known meanwhile
        try:
            return await question(broker)
        except (*ASKING_ERRORS, trio.TooSlowError) as error:
            failure = f"{broker}: {error or type(error).__name__}"
    raise NobodyAnswersError(failure)


async def metadata_of(broker: Broker, topics: Sequence[Topic] | None, read: Reads[_Found]) -> _Found:
    """Return what `read` makes of the broker's answer about these topics, all by name or all by id, and its brokers;
    None: about all topics.

    Raises trio.TooSlowError after `ANSWER_SECONDS`, and one of ASKING_ERRORS.
    """
    versions = METADATA_VERSIONS_BY_ID if topics and isinstance(topics[0], bytes) else NAMED_METADATA_VERSIONS
    with trio.fail_after(ANSWER_SECONDS):
        frame, version = await answer_of(
            broker,
            API_METADATA,
            versions,
            lambda version: metadata_request(0, topics, client_id=CLIENT_ID, version=version),
            most_bytes=MOST_BYTES,
        )
    return await read_answer(read, frame, version)


async def read_answer(read: Reads[_Found], frame: bytes, version: int) -> _Found:
    """Return what `read` makes of an answer; a thread reads a long one. Raises ProtocolError."""
    if len(frame) < LARGE_BYTES:
        return read(frame, version=version)
    return await in_thread(partial(read, frame, version=version), limiter=READING_THREADS)


def pause_seconds(took_seconds: float, least_seconds: float, most_share: float) -> float:
    """Return how long to wait after a question that took so long, so that asking takes `most_share` of the time."""
    return max(least_seconds, took_seconds / most_share)
