from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.load.following_producer import missing
from lab.load.live_producer import Acknowledged
from lab.wire.records import RecordMaker, Shape

if TYPE_CHECKING:
    from pathlib import Path

    from lab.wire.records import MessageFormat


@pytest.mark.parametrize(
    ("offset", "number", "lost"),
    [(0, 0, False), (2, 2, False), (2, 1, True), (3, 3, True)],
    ids=["first", "last", "another record is there", "nothing is there"],
)
@pytest.mark.parametrize("message_format", ["v1", "v2"])
def test_what_was_acknowledged_is_looked_up(
    tmp_path: Path, message_format: MessageFormat, offset: int, number: int, lost: bool
) -> None:
    maker = RecordMaker(Shape(record_bytes=200, batch_records=1, message_format=message_format))
    # A broker writes a batch's offset over its first eight bytes.
    log = b"".join(base.to_bytes(8, "big") + maker.batch()[8:] for base in range(3))
    (tmp_path / "0.log").write_bytes(log)
    record = Acknowledged(0.0, 0.0, offset, number)
    assert missing(tmp_path, [record]) == ([record] if lost else [])
