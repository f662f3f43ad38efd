"""Ids of topics that nobody has: each makes the sidecar ask its broker for all names, which are many, or nonsense."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

import trio

from protocol.metadata import METADATA_VERSION, metadata_response_layout
from protocol.wire.layout import TAGS

from ..cases.case import generator
from ..cases.delivery import READ_BYTES, send_all
from ..cases.mutations import mutated
from .fetches import fetch
from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..stage.stage import Stage

TOPICS, PARTITIONS = 5000, 10
PAUSE_SECONDS = 0.3


class TopicIds(Scene):
    """Made-up ids, and a broker that has 50 000 partitions, or answers with nonsense."""

    name: ClassVar[str] = "topic-ids"

    modes: ClassVar[tuple[str, ...]] = ("listed",)

    async def run(self, stage: Stage) -> None:
        """Ask for one unknown id in each round."""
        self.doing = "fetches of made-up topic ids"
        stage.leader.metadata_answers = self._answers(await trio.to_thread.run_sync(all_topics))
        for number in range(self.scaled(30)):
            rng = generator(self.seed, self.name, number)
            with contextlib.suppress(OSError), trio.socket.socket() as sock:
                await sock.connect(("127.0.0.1", stage.sidecar.ports["ingress"]))
                await send_all(sock, fetch(13, [(rng.randbytes(16), 1)]))
                self.things += 1
                with trio.move_on_after(PAUSE_SECONDS):
                    await sock.recv(READ_BYTES)
                    await trio.sleep_forever()

    def _answers(self, good: bytes) -> Iterator[bytes]:
        number = 0
        while True:
            rng = generator(self.seed, f"{self.name}-answers", number)
            yield good if number % 2 == 0 else mutated(rng, good, times=3)
            number += 1


def all_topics() -> bytes:
    """Return the body of a Metadata response of a large cluster."""
    partitions = [
        {
            "error_code": 0, "partition_index": n, "leader_id": 101, "leader_epoch": 7,
            "replica_nodes": [101, 102, 103], "isr_nodes": [101, 102, 103], "offline_replicas": [], TAGS: [],
        }
        for n in range(PARTITIONS)
    ]  # fmt: skip
    topics = [
        {
            "error_code": 0, "name": f"topic-{n}", "topic_id": (n + 1).to_bytes(16), "is_internal": False,
            "partitions": partitions, "topic_authorized_operations": -(2**31), TAGS: [],
        }
        for n in range(TOPICS)
    ]  # fmt: skip
    brokers = [{"node_id": 101, "host": "localhost", "port": 9092, "rack": None, TAGS: []}]
    body = {
        "throttle_time_ms": 0, "brokers": brokers, "cluster_id": "c", "controller_id": 101, "topics": topics, TAGS: [],
    }  # fmt: skip
    return bytes(metadata_response_layout(METADATA_VERSION).build(body))
