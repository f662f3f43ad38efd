"""A hundred thousand Fetch frames there and back through Kafka's own codec, both directions, every version."""

from __future__ import annotations

from random import Random

import pytest

from tests.protocol.kafka_codec import KafkaCodec, round_trips
from tests.protocol.test_kafka_codec import SPOKEN

FRAMES = {"3.9.1": 60_000, "4.1.0": 40_000}


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kafka", FRAMES)
def test_frames_there_and_back(kafka: str) -> None:
    with KafkaCodec(kafka) as codec:
        assert round_trips(codec, SPOKEN[kafka], FRAMES[kafka], Random(FRAMES[kafka])) == FRAMES[kafka]
