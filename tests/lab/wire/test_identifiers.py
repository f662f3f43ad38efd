from __future__ import annotations

import uuid

from lab.wire.identifiers import kafka_uuid, new_kafka_uuid


def test_uuids_are_written_as_kafka_does() -> None:
    # Uuid.ONE_UUID.toString() of kafka-clients 3.9.1.
    assert kafka_uuid(uuid.UUID(int=1)) == kafka_uuid(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert kafka_uuid(b"\xfb" * 16) == "-_v7-_v7-_v7-_v7-_v7-w"


def test_new_ones_differ() -> None:
    assert len({new_kafka_uuid() for _ in range(50)}) == 50
