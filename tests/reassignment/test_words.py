from __future__ import annotations

import pytest

from reassignment.words import rate_in_words, time_in_words


@pytest.mark.parametrize(
    ("bytes_per_second", "words"),
    [
        (0, "0 B/s"),
        (1023, "1023 B/s"),
        (1024, "1.00 KiB/s (1024 B/s)"),
        (10_000_000, "9.54 MiB/s (10000000 B/s)"),
        (11_274_289_152, "10.50 GiB/s (11274289152 B/s)"),
        (2.0**41, "2.00 TiB/s (2199023255552 B/s)"),
    ],
)
def test_a_rate_says_which_mega_is_meant(bytes_per_second: float, words: str) -> None:
    assert rate_in_words(bytes_per_second) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1s"),
        (59.5, "1m00s"),
        (1073.7, "17m54s"),
        (3601, "1h01m"),
        (7200, "2h00m"),
        (72 * 3600 - 1, "3d00h"),
        (76 * 3600 + 1, "3d05h"),
    ],
)
def test_a_time_is_rounded_up(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words
