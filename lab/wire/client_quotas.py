"""Raw AlterClientQuotas requests, v0: the broker's own client quotas, which kafka-python does not set. Pure.

Source: message specs AlterClientQuotasRequest and AlterClientQuotasResponse.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

API_ALTER_CLIENT_QUOTAS = 49
KEYS = ("producer_byte_rate", "consumer_byte_rate")


def alter_client_quotas(quotas: Mapping[str | None, float | None], *, correlation_id: int = 1) -> bytes:
    """Return a frame that sets both byte rates of each client id, or removes them (None). The client id None is
    `<default>`."""
    entries = b"".join(_entry(client_id, rate) for client_id, rate in quotas.items())
    body = struct.pack(">hhih", API_ALTER_CLIENT_QUOTAS, 0, correlation_id, -1)
    body += struct.pack(">i", len(quotas)) + entries + b"\0"
    return struct.pack(">i", len(body)) + body


def _entry(client_id: str | None, rate: float | None) -> bytes:
    name = struct.pack(">h", -1) if client_id is None else _string(client_id)
    values = b"".join(_string(key) + struct.pack(">d?", rate or 0.0, rate is None) for key in KEYS)
    return struct.pack(">i", 1) + _string("client-id") + name + struct.pack(">i", len(KEYS)) + values


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def refusals(frame: bytes) -> list[str]:
    """Return what an answer without its length prefix refuses, and why. Raises struct.error."""
    _, _, entries = struct.unpack_from(">iii", frame)
    at, found = 12, []
    for _ in range(entries):
        (error,) = struct.unpack_from(">h", frame, at)
        message, at = _nullable(frame, at + 2)
        (parts,) = struct.unpack_from(">i", frame, at)
        at += 4
        names = []
        for _ in range(2 * parts):
            name, at = _nullable(frame, at)
            names.append(name)
        if error:
            found.append(f"{names}: error {error}, {message}")
    return found


def _nullable(frame: bytes, at: int) -> tuple[str | None, int]:
    (length,) = struct.unpack_from(">h", frame, at)
    if length < 0:
        return None, at + 2
    return frame[at + 2 : at + 2 + length].decode(), at + 2 + length
