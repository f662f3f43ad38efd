"""Fetch frames of any version, written out by hand from the message specs, for the tests of what reads them."""

from __future__ import annotations

import struct
import uuid

Entry = tuple[int, bytes]
Topics = dict[str, list[Entry]]

TAG = b"\x01\x63\x02hi"
"""A tagged field nobody knows: one field, tag 99, two bytes."""


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def topic_id(name: str) -> bytes:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes


def request(
    version: int,
    correlation: int,
    *,
    replica: int = 102,
    api: int = 1,
    client: str = "broker-102",
    topics: Topics | None = None,
) -> bytes:
    """Old ones are cut short after what matters; flexible ones are whole, with tags and forgotten partitions."""
    name = client.encode()
    head = struct.pack(f">hhih{len(name)}s", api, version, correlation, len(name), name)
    if version < 12:
        return frame(head + struct.pack(">iii", replica, 500, 1) + b"whatever follows")
    if version < 15:
        return frame(head + TAG + struct.pack(">iii", replica, 500, 1) + b"whatever follows")
    return frame(head + TAG + _request_body(topics or {"orders": [(0, b""), (1, b"")]}, replica))


def _request_body(topics: Topics, replica: int) -> bytes:
    parts = [struct.pack(">iiibii", 500, 1, 1 << 20, 0, 7, 3), varint(len(topics) + 1)]
    for topic, entries in topics.items():
        parts += (topic_id(topic), varint(len(entries) + 1))
        for partition, _ in entries:
            parts += (struct.pack(">iiqiqi", partition, 1, 1000, 1, 0, 1 << 20), TAG)
        parts.append(TAG)
    parts += (varint(2), topic_id("gone"), varint(3), struct.pack(">ii", 4, 5), b"\0")
    parts.append(varint(4) + b"r-1")
    state = struct.pack(">iq", replica, 9) + b"\0"
    tags = [] if replica == -1 else [(1, state)]
    tags = [(0, b"\x05abcd"), *tags]
    parts.append(varint(len(tags)))
    parts += [varint(tag) + varint(len(content)) + content for tag, content in tags]
    return b"".join(parts)


def response(version: int, correlation: int, topics: Topics) -> bytes:
    flexible = version >= 12
    parts = [struct.pack(">i", correlation), TAG if flexible else b""]
    if version >= 1:
        parts.append(struct.pack(">i", 0))
    if version >= 7:
        parts.append(struct.pack(">hi", 70, 7))
    parts.append(_count(len(topics), flexible))
    for topic, entries in topics.items():
        parts += (_topic(topic, version), _count(len(entries), flexible))
        parts += [_entry(version, partition, records) for partition, records in entries]
        parts.append(TAG if flexible else b"")
    parts.append(TAG if flexible else b"")
    return frame(b"".join(parts))


def _topic(topic: str, version: int) -> bytes:
    if version >= 13:
        return topic_id(topic)
    name = topic.encode()
    return (varint(len(name) + 1) if version >= 12 else struct.pack(">h", len(name))) + name


def _entry(version: int, partition: int, records: bytes) -> bytes:
    flexible = version >= 12
    parts = [struct.pack(">ihq", partition, 0, 1000)]
    if version >= 4:
        parts.append(struct.pack(">q", 1000))
    if version >= 5:
        parts.append(struct.pack(">q", 0))
    if version >= 4:
        # As many aborted transactions as the partition's number; none is null.
        parts.append(_count(partition or -1, flexible))
        parts += [struct.pack(">qq", 7, 8) + (TAG if flexible else b"")] * partition
    if version >= 11:
        parts.append(struct.pack(">i", -1))
    parts += (_count(len(records), flexible), records, TAG if flexible else b"")
    return b"".join(parts)


def _count(count: int, flexible: bool) -> bytes:
    return varint(count + 1) if flexible else struct.pack(">i", count)
