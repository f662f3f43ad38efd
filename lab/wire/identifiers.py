"""Kafka's identifiers of topics, clusters and directories, in Kafka's own writing (KIP-516). Pure.

Invariant: what is written here Kafka reads as the same 16 bytes.
"""

from __future__ import annotations

import base64
import uuid


def kafka_uuid(identifier: uuid.UUID | bytes) -> str:
    """Return 22 characters of URL-safe Base64 without padding."""
    raw = identifier.bytes if isinstance(identifier, uuid.UUID) else identifier
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def new_kafka_uuid() -> str:
    """Return a random one."""
    return kafka_uuid(uuid.uuid4())
