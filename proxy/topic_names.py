"""What topic ids stand for: Fetch names no topic since v13 (KIP-516), lists of throttled replicas know no ids.

Asked of a broker by Metadata, on a connection of its own, when an id is met that nobody knows: a topic is new, or was
deleted and made again. Lists that name no topic (`*`) need none of this. Until the answer comes, a topic counts as
listed, so that a move does not begin with a response of 10 MiB; if none comes, it passes unthrottled and is counted.

Invariant: a broker is asked at most once per `LEAST_PAUSE_SECONDS`, whatever ids a follower makes up.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.metadata import metadata_request, topic_names_by_id

from .broker_asking import answer_of
from .changes import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .logs import Log
    from .settings import Address

LEAST_PAUSE_SECONDS = 0.25
ANSWER_SECONDS = 5.0
MOST_BYTES = 64 * 1024 * 1024
"""Of a Metadata response: of some hundred thousand partitions."""
MOST_UNKNOWN = 10_000
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
        self._without: set[bytes] = set()
        """No broker had a name for them, or none answered: asked for again when they are met, but awaited no more, or
        they would count as listed now and then."""
        self._wanted = Changes()

    def of(self, topic_id: bytes) -> str | None:
        """The topic's name; None if it is not known yet, in which case it is asked for."""
        name = self._names.get(topic_id)
        if name is None and topic_id not in self._awaited and len(self._awaited) < MOST_UNKNOWN:
            if topic_id not in self._without:
                self._awaited.add(topic_id)
            self._wanted.notify()
        return name

    def is_awaited(self, topic_id: bytes) -> bool:
        """Its name is on its way, as far as anybody knows."""
        return topic_id in self._awaited

    def known(self, topic_id: bytes) -> str | None:
        """The name without asking, for people."""
        return self._names.get(topic_id)

    def learn(self, names: dict[bytes, str] | None) -> None:
        """Take what the cluster has now; None if no broker says."""
        missed = self._awaited - (names or self._names).keys()
        self.unnamed += len(missed)
        if self._awaited or (names is not None and names != self._names):
            self.generation += 1
        if names is not None:
            self._names = names
        without = (self._without - self._names.keys()) | missed
        self._without = without if len(without) <= MOST_UNKNOWN else missed
        self._awaited.clear()

    async def run(self, brokers: Iterable[Address], changed: Callable[[], None], log: Log) -> None:
        """Ask whenever something is unknown; `changed` is called when more is known. Runs until cancelled."""
        told = None
        while True:
            if not self._awaited:
                await self._wanted.wait()
            generation = self.generation
            failure = await self._ask(brokers)
            if failure is not None:
                self.learn(None)
                if failure != told:
                    log.warning("topic_names_unavailable", error=failure)
            told = failure
            if self.generation != generation:
                changed()
            await trio.sleep(LEAST_PAUSE_SECONDS)

    async def _ask(self, brokers: Iterable[Address]) -> str | None:
        """Ask one broker after the other; return what went wrong if none answers."""
        failure = "there is no broker to ask"
        for broker in tuple(brokers):  # more may become known meanwhile
            try:
                with trio.fail_after(ANSWER_SECONDS):
                    self.learn(await ask(broker))
            except (OSError, ProtocolError, trio.TooSlowError, trio.BrokenResourceError) as error:
                failure = f"{broker}: {error or type(error).__name__}"
            else:
                return None
        return failure


async def ask(broker: Address) -> dict[bytes, str]:
    """Return the names of all topics by id. Raises OSError, ProtocolError, trio.BrokenResourceError."""
    request = metadata_request(0, None, client_id=CLIENT_ID)
    return topic_names_by_id(await answer_of(broker, request, most_bytes=MOST_BYTES))


def written(topic: str | bytes) -> str:
    """A topic for people: its name, or its id as Kafka's tools write one (base64url without padding)."""
    return topic if isinstance(topic, str) else base64.urlsafe_b64encode(topic).rstrip(b"=").decode()
