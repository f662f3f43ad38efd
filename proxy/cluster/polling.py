"""The sidecar's view of the cluster: a few questions, asked of brokers at a common cadence and within a bound.

Invariant: asking a question takes at most `MAX_TIME_SHARE` of the time, however long its answers take. A question
that no broker answers is logged once, and again only after an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import trio

from .broker_client import ASKING_ERRORS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ..logs.log import Log
    from .broker_client import Broker

LOOK_SECONDS = 1.0
"""The time between two checks whether a question is due, and the shortest pause between two of its requests."""
RETRY_SECONDS = 10.0
"""The pause after a question that no broker answered."""
MAX_TIME_SHARE = 0.02
"""An answer about 50 topics of 1000 partitions each occupies a thread for half a second."""
MAX_PAUSE_SECONDS = 60.0
_Found = TypeVar("_Found")


class NoBrokerAnswersError(Exception):
    """No broker answered; the text gives the error of the last broker."""


class Question(ABC, Generic[_Found]):
    """A question about the cluster that is asked again and again."""

    name: ClassVar[str]
    """Names the question in the log."""
    time_share: ClassVar[float] = MAX_TIME_SHARE
    retry_seconds: ClassVar[float] = RETRY_SECONDS
    least_pause_seconds: ClassVar[float] = LOOK_SECONDS

    @abstractmethod
    async def wait_until_due(self) -> None:
        """Return when brokers are to be asked."""

    @abstractmethod
    async def ask(self, broker: Broker) -> _Found:
        """Return the broker's answer. Raises one of ASKING_ERRORS."""

    @abstractmethod
    def learn(self, found: _Found | None, now: float) -> None:
        """Use an answer; None: no broker answered."""


async def poll(is_due: Callable[[float], bool]) -> None:
    """Return when `is_due`, given the time, is true."""
    while not is_due(trio.current_time()):  # noqa: ASYNC110 - time passes without an event
        await trio.sleep(LOOK_SECONDS)


async def follow_cluster(questions: Sequence[Question[_Found]], brokers: Iterable[Broker], log: Log) -> None:
    """Ask all questions whenever they are due, until cancelled."""
    async with trio.open_nursery() as nursery:
        for question in questions:
            nursery.start_soon(follow, question, brokers, log)


async def follow(question: Question[_Found], brokers: Iterable[Broker], log: Log) -> None:
    """Ask a question whenever it is due, until cancelled."""
    is_answered = True
    while True:
        await question.wait_until_due()
        began = trio.current_time()
        pause = question.least_pause_seconds
        found = None
        try:
            found = await first_answer(brokers, question.ask)
        except NoBrokerAnswersError as error:
            if is_answered:
                log.warning("cluster_request_failed", request=question.name, error=str(error))
            is_answered, pause = False, max(pause, question.retry_seconds)
        else:
            is_answered = True
        now = trio.current_time()
        question.learn(found, now)
        await trio.sleep(max(pause, min((now - began) / question.time_share, MAX_PAUSE_SECONDS)))


async def first_answer(brokers: Iterable[Broker], ask: Callable[[Broker], Awaitable[_Found]]) -> _Found:
    """Return the answer of the first broker that answers. Raises NoBrokerAnswersError."""
    failure = "there is no broker to ask"
    for broker in tuple(brokers):  # more may become known meanwhile
        try:
            return await ask(broker)
        except ASKING_ERRORS as error:
            failure = f"{broker}: {error or type(error).__name__}"
    raise NoBrokerAnswersError(failure)
