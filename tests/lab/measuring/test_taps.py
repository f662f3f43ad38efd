from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.measuring.figures import Answer, Asked
from lab.measuring.taps import Taps

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = '{"t":1.5,"kind":"request","leader":101,"follower":102,"version":3,"bytes":80}\n'
RESPONSE = (
    '{"t":2.0,"kind":"response","leader":101,"follower":102,"version":3,"bytes":90,"partitions":[["a",0,50]],'
    '"error":70,"session":9}\n'
)


def made(home: Path) -> Taps:
    names = {"AAAAAAAAAAAAAAAAAAAAAQ": "orders"}
    return Taps({101: ("127.1.1.51", "127.1.1.11")}, home=home, topic_name=names.__getitem__)


def test_topic_ids_become_names(tmp_path: Path) -> None:
    taps = made(tmp_path)
    named = RESPONSE.replace('"version":3', '"version":12')
    by_id = RESPONSE.replace('"version":3', '"version":13').replace('"a"', '"AAAAAAAAAAAAAAAAAAAAAQ"')
    taps.samples_file.write_text(named + by_id)
    assert taps.samples() == [
        Answer(2.0, 101, 102, 12, (("a", 0, 50),), 70, 9, 90),
        Answer(2.0, 101, 102, 13, (("orders", 0, 50),), 70, 9, 90),
    ]


def test_samples_are_read_from_a_mark_and_half_lines_later(tmp_path: Path) -> None:
    taps = made(tmp_path)
    taps.samples_file.write_text('{"t":1.0,"kind":"listening"}\n' + REQUEST)
    first, mark = taps.read_from(0)
    assert first == [Asked(1.5, 101, 102, 3, 80)]
    with taps.samples_file.open("a") as file:
        file.write(RESPONSE[:40])
        file.flush()
        assert taps.read_from(mark) == ([], mark)
        file.write(RESPONSE[40:])
    assert taps.samples(since=mark) == [Answer(2.0, 101, 102, 3, (("a", 0, 50),), 70, 9, 90)]
    assert taps.position() == len(taps.samples_file.read_bytes())


def test_what_a_tap_did_not_understand_is_an_error_where_it_is_read(tmp_path: Path) -> None:
    """It looked at nothing more in that direction, so whoever holds what passed against an upper bound would find too
    little, and be content."""
    taps = made(tmp_path)
    taps.samples_file.write_text(REQUEST + '{"t":1.6,"kind":"undecoded","leader":101,"reason":"4 bytes too many"}\n')
    with pytest.raises(LabError, match=r"tap\.jsonl: expected Fetch frames at leader 101, found: 4 bytes too many"):
        taps.samples()
    assert taps.samples(since=taps.position()) == []
