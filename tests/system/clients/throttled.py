"""What Throttled.java does, by librdkafka; without the broker's own quota. `throttled` is what its `throttle_cb` was
told, `closed` how often its `error_cb` was."""

from __future__ import annotations

import hashlib
import random
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def told(event: str, value: bytes) -> None:
    say(event, round(time.time() * 1000), len(value), hashlib.sha256(value).hexdigest())


class Seen:
    """What a client is told by callbacks."""

    def __init__(self) -> None:
        self.throttled_ms = 0
        self.errors = 0

    def throttle(self, event: object) -> None:
        self.throttled_ms = max(self.throttled_ms, round(event.throttle_time * 1000))

    def error(self, error: KafkaError) -> None:
        self.errors += 1
        say("error", error)

    def settings(self) -> dict[str, object]:
        return {"throttle_cb": self.throttle, "error_cb": self.error}

    def say(self, who: str) -> None:
        say("throttled", who, self.throttled_ms)
        say("closed", who, self.errors)


def produce(servers: str, topic: str, client_id: str, count: int) -> None:
    seen, chance = Seen(), random.Random(1)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "batch.size": 200_000,
            "queue.buffering.max.kbytes": 2000,
            **seen.settings(),
        }
    )

    def acked(error: KafkaError | None, message: Message) -> None:
        if error is None:
            told("acked", message.value())
        else:
            say("failed", error)

    for _ in range(count):
        value = chance.randbytes(100_000)
        while True:
            try:
                producer.produce(topic, partition=0, value=value, on_delivery=acked)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    seen.say("producer")


def consume(servers: str, topic: str, client_id: str, count: int) -> None:
    seen = Seen()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            **seen.settings(),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < count:
        for message in consumer.consume(10, timeout=0.1):
            if message.error():
                raise KafkaException(message.error())
            told("read", message.value())
            read += 1
    seen.say("consumer")
    consumer.close()


def main(servers: str, topic: str, client_id: str, count: str, _quota: str) -> None:
    produce(servers, topic, client_id, int(count))
    consume(servers, topic, client_id, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
