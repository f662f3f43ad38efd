"""Asks a broker between which brokers replication runs, where a quota holds and no connection comes.

A role without connections may be right: a broker that leads everything fetches from nobody, and one that leads nothing
is fetched from by nobody. A broker is asked by Metadata, about all topics, only while a role is without connections.

Invariant: asking takes no more than `MOST_SHARE` of the time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import replication_links

from .metadata_asking import NobodyAnswersError, first_answer, metadata_of, pause_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.metadata import Links

    from .broker_asking import Broker

LOOK_SECONDS = 1.0
PAUSE_SECONDS = 60.0
MOST_SHARE = 0.01


async def follow_links(
    broker_id: int, is_wanted: Callable[[], bool], learn: Callable[[Links | None], object], brokers: Iterable[Broker]
) -> None:
    """Ask while it is wanted, until cancelled; `learn` is given what was answered, None if no broker answers."""
    while True:
        pause = LOOK_SECONDS
        if is_wanted():
            began = trio.current_time()
            try:
                learn(await first_answer(brokers, partial(_ask, broker_id)))
            except NobodyAnswersError:
                learn(None)
            pause = pause_seconds(trio.current_time() - began, PAUSE_SECONDS, MOST_SHARE)
        await trio.sleep(pause)


async def _ask(broker_id: int, broker: Broker) -> Links:
    return await metadata_of(broker, None, partial(replication_links, broker_id=broker_id))
