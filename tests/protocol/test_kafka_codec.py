"""Frames of every version there and back through Kafka's own codec: the short form of tests/system/test_codec.py."""

from __future__ import annotations

from random import Random

import pytest

from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS

from .kafka_codec import KafkaCodec, round_trips

FRAMES = 1500
SPOKEN = {"3.9.1": range(18), "4.1.0": range(4, 19)}


@pytest.mark.brokers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kafka", SPOKEN)
def test_frames_there_and_back(kafka: str) -> None:
    with KafkaCodec(kafka) as codec:
        assert round_trips(codec, SPOKEN[kafka], FRAMES, Random(73)) == FRAMES


def test_every_version_is_spoken() -> None:
    assert {version for versions in SPOKEN.values() for version in versions} == set(SUPPORTED_FETCH_VERSIONS)
