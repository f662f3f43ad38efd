from __future__ import annotations

from pathlib import Path

import pytest

from lab.brokers.releases import EVERY_RELEASE, RELEASES, Release, release
from lab.errors import LabError

ROOT = Path(__file__).parents[3]


def test_every_version_that_real_followers_send_is_there() -> None:
    # Fetch v6, v9 and v14 are never sent (MetadataVersion.fetchRequestVersion), v4 only by a development version.
    assert [row.fetch_version for row in RELEASES] == [3, 5, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 18, 18, 18]
    assert len({row.name for row in RELEASES}) == len(RELEASES)


@pytest.mark.parametrize(
    ("kafka", "protocol", "fetch_version"),
    [
        (None, None, 3),
        (None, "0.10.1", 3),
        (None, "0.10.1-IV2", 3),
        ("3.9.1", None, 3),
        ("3.9.1", "2.4", 11),
        (None, "3.7", 16),
        ("4.1.0", None, 18),
        ("4.1.0", "4.1", 18),
        (None, "4.2", 18),
        ("4.3.0", None, 18),
        ("4.4.0", None, 18),
        ("0.10.1.1", None, 3),
        ("1.0.2", None, 5),
        ("2.8.2", None, 12),
        (None, "1.0", 5),
    ],
)
def test_rows_are_found_by_what_is_known(kafka: str | None, protocol: str | None, fetch_version: int) -> None:
    assert release(kafka=kafka, protocol=protocol).fetch_version == fetch_version


@pytest.mark.parametrize(
    ("kafka", "protocol", "message"),
    [
        ("4.1.0", "2.4", "no Kafka 4.1.0 with protocol 2.4; it has .*2.4 \\(3.9.1\\).*4.1 \\(4.1.0\\)"),
        (None, "9.9", "no protocol 9.9"),
        ("0.9", None, "no Kafka 0.9"),
    ],
)
def test_what_is_not_there_is_an_error_that_lists_the_rest(
    kafka: str | None, protocol: str | None, message: str
) -> None:
    with pytest.raises(LabError, match=message):
        release(kafka=kafka, protocol=protocol)


def test_names_are_what_people_say() -> None:
    assert Release("3.9.1", "0.10.1-IV2", 3).name == "0.10.1"
    assert Release("3.9.1", "2.4", 11).message_format == "2.4"


def test_the_reference_is_spoken_by_new_binaries_unless_old_ones_are_asked_for() -> None:
    assert release(protocol="0.10.1").kafka == "3.9.1"
    assert [row.kafka for row in EVERY_RELEASE if row.through_zookeeper] == ["0.10.1.1", "1.0.2", "1.1.1"]


def test_the_readme_names_the_binaries_that_are_tried() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert sorted({row.kafka for row in EVERY_RELEASE if row.kafka not in text}) == []
