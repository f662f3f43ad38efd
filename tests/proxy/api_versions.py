"""What a broker of the tests answers when it is asked which versions it knows."""

from __future__ import annotations

import struct

from protocol.wire.apis import API_METADATA, API_VERSIONS
from protocol.wire.framing import with_length

ASKED = with_length(struct.pack(">hhih", API_VERSIONS, 0, 0, 16) + b"throttle-sidecar")


def known(*apis: tuple[int, int, int]) -> bytes:
    """Return the answer, its length included, of a broker that knows these: api key, first version, last version."""
    return with_length(struct.pack(">ihi", 0, 0, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis))


def metadata_to(last: int) -> bytes:
    return known((1, 0, 11), (API_METADATA, 0, last))
