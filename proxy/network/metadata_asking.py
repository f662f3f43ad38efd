"""One question by Metadata, put to one broker after the other until one answers.

Knows the two versions in which brokers can be asked, how long an answer may take, and in which thread it is read. Its
callers know what is asked for, and what an answer means. Invariant: an answer that takes long to read is read by a
thread, and asking takes no more than its share of the time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from protocol.metadata import METADATA_VERSION, NAMED_METADATA_VERSIONS, metadata_request

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
VERSIONS = (METADATA_VERSION, NAMED_METADATA_VERSIONS.start)
"""The second is for brokers before 2.8, which close the connection when they are asked in the first."""
_Found_co = TypeVar("_Found_co", covariant=True)
_Found = TypeVar("_Found")


class NobodyAnswersError(Exception):
    """No broker answered; the text says what went wrong with the one that was asked last."""


class Reads(Protocol[_Found_co]):
    """Reads the frame of an answer of that version. Raises ProtocolError."""

    def __call__(self, frame: bytes, *, version: int) -> _Found_co: ...


class MetadataAsking:
    """Remembers which version was answered last, which is tried first the next time."""

    def __init__(self) -> None:
        self._version = METADATA_VERSION

    async def one_of(
        self,
        brokers: Iterable[Broker],
        question: Callable[[Broker, int], Awaitable[_Found]],
        *,
        by_id: bool = False,
    ) -> _Found:
        """Return the first answer to `question`, which is given a broker and a version.

        `by_id`: topics are asked for by id, which only the first of `VERSIONS` can do. Raises NobodyAnswersError.
        """
        failure = "there is no broker to ask"
        for broker in tuple(brokers):  # more may become known meanwhile
            for version in VERSIONS[:1] if by_id else sorted(VERSIONS, key=lambda each: each != self._version):
                try:
                    found = await question(broker, version)
                except (*ASKING_ERRORS, trio.TooSlowError) as error:
                    failure = f"{broker}: {error or type(error).__name__}"
                else:
                    self._version = version
                    return found
        raise NobodyAnswersError(failure)


async def metadata_of(broker: Broker, topics: Sequence[Topic], read: Reads[_Found], *, version: int) -> _Found:
    """Return what `read` makes of the broker's answer about these topics, and its brokers.

    Raises trio.TooSlowError after `ANSWER_SECONDS`, and one of ASKING_ERRORS.
    """
    with trio.fail_after(ANSWER_SECONDS):
        request = metadata_request(0, topics, client_id=CLIENT_ID, version=version)
        frame = await answer_of(broker, request, most_bytes=MOST_BYTES)
    if len(frame) < LARGE_BYTES:
        return read(frame, version=version)
    return await in_thread(partial(read, frame, version=version), limiter=READING_THREADS)


def pause_seconds(took_seconds: float, least_seconds: float, most_share: float) -> float:
    """Return how long to wait after a question that took so long, so that asking takes `most_share` of the time."""
    return max(least_seconds, took_seconds / most_share)
