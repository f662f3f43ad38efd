from __future__ import annotations

import struct

from lab.wire.client_quotas import alter_client_quotas, refusals


def test_a_request_sets_both_rates_or_removes_them() -> None:
    frame = alter_client_quotas({"app": 1000.0, None: None}, correlation_id=9)
    (size, key, version, correlation_id, client_id, entries) = struct.unpack_from(">ihhihi", frame)
    assert (size, key, version, correlation_id, client_id, entries) == (len(frame) - 4, 49, 0, 9, -1, 2)
    rates = [struct.pack(">h", len(name)) + name.encode() for name in ("producer_byte_rate", "consumer_byte_rate")]
    client = struct.pack(">i", 1) + b"\0\x09client-id"
    set_, removed = struct.pack(">d?", 1000.0, False), struct.pack(">d?", 0.0, True)
    assert frame[18:-1] == (
        client + b"\0\x03app" + struct.pack(">i", 2) + b"".join(rate + set_ for rate in rates)
        + client + b"\xff\xff" + struct.pack(">i", 2) + b"".join(rate + removed for rate in rates)
    )  # fmt: skip


def test_what_a_broker_refuses_is_told() -> None:
    entity = struct.pack(">i", 1) + b"\0\x09client-id\0\x03app"
    answer = struct.pack(">iiih", 9, 0, 2, 0) + b"\xff\xff" + entity + struct.pack(">h", 40) + b"\0\x03bad" + entity
    assert refusals(answer) == ["['client-id', 'app']: error 40, bad"]
