"""What topic ids stand for: Fetch names no topic since v13 (KIP-516), lists of throttled replicas know no ids.

Asked of a broker by Metadata, on a connection of its own, when an id is met that nobody knows: a topic is new, or was
deleted and made again. Only the ids that are wanted are asked for (KIP-516): to read the partitions of every topic of a
large cluster takes seconds, and a follower that makes ids up could have it done again and again. Lists that name no
topic (`*`) need none of this. Until the answer comes, a topic counts as listed, so that a move does not begin with a
response of 10 MiB; if none comes, it passes unthrottled and is counted.

Invariants: a broker is asked at most once per `LEAST_PAUSE_SECONDS`, for `MOST_AT_ONCE` ids, and for one of which it
said nothing at most once per `AGAIN_SECONDS`; what is remembered is bounded, whatever ids a follower makes up.
"""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.metadata import NO_ID, metadata_request, topic_names_by_id

from ..changes import Changes
from .broker_asking import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ..config.settings import Address
    from ..logs.log import Log

LEAST_PAUSE_SECONDS = 0.25
ANSWER_SECONDS = 5.0
MOST_BYTES = 64 * 1024 * 1024
"""Of a Metadata response: of some hundred thousand partitions."""
MOST_UNKNOWN = 10_000
MOST_AT_ONCE = 2_000
MOST_NAMES = 200_000
"""Kafka's largest clusters have some ten thousand topics; beyond so many names all are asked for anew."""
AGAIN_SECONDS = 5.0
LARGE_BYTES = 32 * 1024
"""An answer from here on is read by a thread: the topics asked for have a thousand partitions."""
CLIENT_ID = "throttle-sidecar"


class TopicNames:
    """Names by topic id. `generation` grows whenever there are new ones, or one that was awaited does not come."""

    def __init__(self) -> None:
        self.generation = 0
        self.unnamed = 0
        """Ids for which a broker was asked in vain; one that is asked for again is not counted again."""
        self._names: dict[bytes, str] = {}
        self._awaited: set[bytes] = set()
        """No broker has been asked since they were met."""
        self._without: dict[bytes, float] = {}
        """No broker had a name for them, or none answered, and when that was: asked for again when they are met, but
        awaited no more, or they would count as listed now and then."""
        self._again: set[bytes] = set()
        """Of those, who was met again since."""
        self._wanted = Changes()

    def of(self, topic_id: bytes) -> str | None:
        """The topic's name; None if it is not known yet, in which case it is asked for."""
        name = self._names.get(topic_id)
        if name is None and topic_id not in self._awaited and len(self._awaited) < MOST_UNKNOWN and topic_id != NO_ID:
            (self._again if topic_id in self._without else self._awaited).add(topic_id)
            self._wanted.notify()
        return name

    def is_awaited(self, topic_id: bytes) -> bool:
        """Its name is on its way, as far as anybody knows."""
        return topic_id in self._awaited

    def known(self, topic_id: bytes) -> str | None:
        """The name without asking, for people."""
        return self._names.get(topic_id)

    def wanted(self, now: float) -> list[bytes]:
        """What is to be asked for next, those that are awaited first."""
        due = [each for each in self._again if now - self._without.get(each, now) >= AGAIN_SECONDS]
        self._again.clear()
        return [*self._awaited, *due][:MOST_AT_ONCE]

    def learn(self, names: Mapping[bytes, str] | None, asked: Collection[bytes] = (), now: float = 0.0) -> None:
        """Take what a broker says of the ids it was asked for; None if no broker says."""
        found = {} if names is None else names
        in_vain = [each for each in asked if each not in found]
        missed = [each for each in in_vain if each in self._awaited]
        self.unnamed += len(missed)
        if missed or any(self._names.get(each) != name for each, name in found.items()):
            self.generation += 1
        if len(self._names) + len(found) > MOST_NAMES:
            self._names.clear()
        self._names.update(found)
        if len(self._without) + len(in_vain) > MOST_UNKNOWN:
            self._without.clear()
        self._without |= dict.fromkeys(in_vain, now)
        for each in found:
            self._without.pop(each, None)
        self._awaited.difference_update(asked, found)

    async def run(self, brokers: Iterable[Address], changed: Callable[[], None], log: Log) -> None:
        """Ask whenever something is unknown; `changed` is called when more is known. Runs until cancelled."""
        told = None
        while True:
            if not self._awaited:
                await self._wanted.wait()
            asked = self.wanted(trio.current_time())
            if asked:
                generation = self.generation
                failure = await self._ask(brokers, asked)
                if failure is not None:
                    self.learn(None, asked, trio.current_time())
                    if failure != told:
                        log.warning("topic_names_unavailable", error=failure)
                told = failure
                if self.generation != generation:
                    changed()
            await trio.sleep(LEAST_PAUSE_SECONDS)

    async def _ask(self, brokers: Iterable[Address], asked: list[bytes]) -> str | None:
        """Ask one broker after the other; return what went wrong if none answers."""
        failure = "there is no broker to ask"
        for broker in tuple(brokers):  # more may become known meanwhile
            try:
                with trio.fail_after(ANSWER_SECONDS):
                    names = await ask(broker, asked)
            except (OSError, ProtocolError, trio.TooSlowError, trio.BrokenResourceError) as error:
                failure = f"{broker}: {error or type(error).__name__}"
            else:
                self.learn(names, asked, trio.current_time())
                return None
        return failure


async def ask(broker: Address, ids: Iterable[bytes]) -> dict[bytes, str]:
    """Return the names of those of the topics that the broker has, by id.

    Raises OSError, ProtocolError, trio.BrokenResourceError.
    """
    request = metadata_request(0, ids, client_id=CLIENT_ID)
    frame = await answer_of(broker, request, most_bytes=MOST_BYTES)
    if len(frame) < LARGE_BYTES:
        return topic_names_by_id(frame)
    return await trio.to_thread.run_sync(topic_names_by_id, frame, limiter=_one_at_a_time())


@functools.cache
def _one_at_a_time() -> trio.CapacityLimiter:
    """Of threads: they hold the interpreter while they read."""
    return trio.CapacityLimiter(1)


def written(topic: str | bytes) -> str:
    """A topic for people: its name, or its id as Kafka's tools write one (base64url without padding)."""
    return topic if isinstance(topic, str) else base64.urlsafe_b64encode(topic).rstrip(b"=").decode()
