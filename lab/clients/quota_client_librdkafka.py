"""The client of QuotaClient.java by librdkafka: see there.

Times of requests are its `rtt`, throttle times what `throttle_cb` is told, and a connection that was closed is what
`error_cb` is told; of each request that it sends again (`txretries`) it does not say why.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

TRANSACTIONS = 3
_lock = threading.Lock()
_seen: set[tuple[int | None, int | None]] = set()
_joined = threading.Event()


def say(event: str, who: str, *words: object) -> None:
    with _lock:
        sys.stdout.write(" ".join(map(str, (event, who, *words))) + "\n")
        sys.stdout.flush()


def now() -> int:
    return round(time.time() * 1000)


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


class Seen:
    """The news that a client gets by callbacks."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.throttled_ms = 0
        self.errors = 0
        self.retries = 0
        self.average_ms = self.longest_ms = 0.0

    def throttle(self, event: Any) -> None:
        self.throttled_ms = max(self.throttled_ms, round(event.throttle_time * 1000))

    def error(self, error: KafkaError) -> None:
        self.errors += 1
        say("failed", self.who, now(), str(error).replace(" ", "_"))

    def statistics(self, text: str) -> None:
        brokers = [each for each in json.loads(text)["brokers"].values() if each["rtt"]["cnt"]]
        self.retries = sum(each["txretries"] for each in brokers)
        self.average_ms = max((each["rtt"]["avg"] / 1000 for each in brokers), default=self.average_ms)
        self.longest_ms = max([self.longest_ms, *(each["rtt"]["max"] / 1000 for each in brokers)])

    def settings(self) -> dict[str, object]:
        return {
            "client.id": self.who, "throttle_cb": self.throttle, "error_cb": self.error, "stats_cb": self.statistics,
            "statistics.interval.ms": 500,
        }  # fmt: skip

    def say(self) -> None:
        times = round(self.average_ms), round(self.longest_ms)
        for _ in range(self.retries):
            say("retried", self.who, now(), "unknown")
        say("metrics", self.who, self.throttled_ms, *times, self.errors)


class Task:
    """The task that the arguments set."""

    def __init__(self, servers: str, topic: str, prefix: str, codecs: str, count: str, *sizes: str) -> None:
        self.topic, self.prefix, self.codecs = topic, prefix, codecs.split(",")
        self.count = int(count)
        self.size, self.batch, timeout_ms = map(int, sizes)
        self.common = {"bootstrap.servers": servers, "socket.timeout.ms": timeout_ms}

    @property
    def committed(self) -> int:
        return len(self.codecs) * (TRANSACTIONS - 1) * self.count

    def produce(self, codec: str, partition: int) -> None:
        who = self.prefix + codec
        seen, chance = Seen(who), random.Random(partition)
        producer = Producer(
            {
                **self.common,
                **seen.settings(),
                "transactional.id": self.topic + who,
                "compression.type": codec,
                "batch.size": self.batch,
                "queue.buffering.max.kbytes": max(self.batch, self.size) // 100,
            }
        )

        def acked(error: KafkaError | None, message: Message) -> None:
            if error is None:
                say("acked", who, now(), len(message.value() or b""))
            else:
                say("failed", who, now(), str(error).replace(" ", "_"))

        producer.init_transactions()
        for turn in range(TRANSACTIONS):
            producer.begin_transaction()
            values = [chance.randbytes(self.size) for _ in range(self.count)]
            for value in values:
                while True:
                    try:
                        producer.produce(self.topic, partition=partition, value=value, on_delivery=acked)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.flush()
            aborts = turn == 1
            producer.abort_transaction() if aborts else producer.commit_transaction()
            for value in values:
                say("aborted" if aborts else "committed", who, now(), digest(value))
        producer.poll(1)  # the last statistics
        seen.say()

    def consume(self, name: str) -> None:
        who = self.prefix + name
        seen = Seen(who)
        consumer = Consumer(
            {
                **self.common,
                **seen.settings(),
                "group.id": self.topic,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
            }
        )

        def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            say("assigned", who, now(), len(partitions))
            if name == "second" and partitions:
                _joined.set()

        def revoked(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
            """Do nothing: all that was read is committed already."""

        def lost(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
            say("lost", who, now())

        consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
        while len(_seen) < self.committed or not _joined.is_set():
            messages = consumer.consume(100, timeout=0.05)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                _seen.add((message.partition(), message.offset()))
                value = message.value() or b""
                say("read", who, now(), len(value), digest(value))
            if messages:
                consumer.commit(asynchronous=False)
        seen.say()
        consumer.close()

    def consume_second(self) -> None:
        while len(_seen) < self.committed / 4:
            time.sleep(0.005)
        self.consume("second")


def run_all(*tasks: Any) -> None:
    """Run each in a thread; an error of any ends the process at once, as the others may wait for it."""
    failed = []

    def run(task: Any) -> None:
        try:
            task()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failed:
        time.sleep(0.05)
    if failed:
        sys.exit(f"failed: {failed[0]!r}")


def main(*arguments: str) -> None:
    task = Task(*arguments)
    run_all(*(lambda c=codec, n=number: task.produce(c, n) for number, codec in enumerate(task.codecs)))
    run_all(lambda: task.consume("first"), task.consume_second)


if __name__ == "__main__":
    main(*sys.argv[1:])
