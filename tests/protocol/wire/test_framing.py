"""Length prefixes: refused before anything is allocated for them."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.wire.framing import frame_size, with_length


@pytest.mark.parametrize(
    ("prefix", "size"),
    [(b"\0\0\0\0", 0), (b"\0\0\0\x64", 100), (b"\0\0\0\x63", 99)],
)
def test_sizes_up_to_the_maximum(prefix: bytes, size: int) -> None:
    assert frame_size(b"??" + prefix, 2, maximum=100) == size


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x65", b"\x7f\xff\xff\xff"])
def test_sizes_beyond_are_refused(prefix: bytes) -> None:
    with pytest.raises(ProtocolError, match="not between 0 and 100"):
        frame_size(prefix, 0, maximum=100)


@pytest.mark.parametrize("at", [1, 4])
def test_a_prefix_has_four_bytes(at: int) -> None:
    with pytest.raises(ProtocolError, match="four bytes"):
        frame_size(b"\0\0\0\0", at, maximum=100)


def test_a_frame_goes_out_with_its_length() -> None:
    message = with_length(b"frame")
    assert message == b"\0\0\0\5frame"
    assert frame_size(message, 0, maximum=5) == 5
