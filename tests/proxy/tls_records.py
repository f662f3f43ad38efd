"""Records of TLS 1.3 that no library would send: sealed by hand, with a client's own secret (RFC 8446, 5.2 and 7.1)."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from pathlib import Path

SUITE = "TLS_AES_256_GCM_SHA384"
HANDSHAKE, DATA = 22, 23
_HASH, _KEY_BYTES, _IV_BYTES = "sha384", 32, 12


class Records:
    """What a client says after its handshake, by the suite that is OpenSSL's first choice."""

    def __init__(self, key_log: Path) -> None:
        """`key_log`: what `SSLContext.keylog_filename` named, of one handshake."""
        lines = key_log.read_text().splitlines()
        (secret,) = (line.split()[2] for line in lines if line.startswith("CLIENT_TRAFFIC_SECRET_0 "))
        self._take(bytes.fromhex(secret))

    def record(self, content: bytes, kind: int = DATA) -> bytes:
        head = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        nonce = (self._iv ^ self._number).to_bytes(_IV_BYTES, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, content + bytes([kind]), head)

    def key_update(self, *, wants_one: bool = False) -> bytes:
        """From the next record on there is a new key."""
        said = self.record(b"\x18\x00\x00\x01" + bytes([wants_one]), HANDSHAKE)
        self._take(_expanded(self._secret, b"traffic upd", hashlib.new(_HASH).digest_size))
        return said

    def _take(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key = AESGCM(_expanded(secret, b"key", _KEY_BYTES))
        self._iv = int.from_bytes(_expanded(secret, b"iv", _IV_BYTES), "big")


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label, for no more than one block of the hash."""
    about = size.to_bytes(2, "big") + bytes([len(label) + 6]) + b"tls13 " + label + b"\x00\x01"
    return hmac.digest(secret, about, _HASH)[:size]
