"""A producer of librdkafka that goes on until a file appears, run as a process of its own (`ClientProgram`).

Arguments: bootstrap.servers, topic, its number of partitions, the file. Ends with three events: `acknowledged COUNT`,
`failed COUNT` of records that were given up, and `longest MILLISECONDS` from the call to the acknowledgement.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

PAUSE_SECONDS = 0.02
FLUSH_SECONDS = 60
VALUE = bytes(500)


class Outcome:
    """The counts of records by their fate."""

    def __init__(self) -> None:
        self.acknowledged = self.failed = 0
        self.longest_seconds = 0.0

    def delivered(self, began: float, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        self.acknowledged += 1
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


def main(servers: str, topic: str, partitions: str, until: str) -> None:
    """Produce a record to each partition fifty times a second."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
    outcome = Outcome()
    while not Path(until).exists():
        for partition in range(int(partitions)):
            told = partial(outcome.delivered, time.monotonic())
            producer.produce(topic, value=VALUE, partition=partition, on_delivery=told)
        producer.poll(0)
        time.sleep(PAUSE_SECONDS)
    outcome.failed += producer.flush(FLUSH_SECONDS)
    longest = round(1000 * outcome.longest_seconds)
    sys.stdout.write(f"acknowledged {outcome.acknowledged}\nfailed {outcome.failed}\nlongest {longest}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
