"""What a line may say: values that a sidecar never writes are set aside with the reason, one line at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from journal_schema import Kind
from pipeline.journals.parse_lines import MOST, parse
from pipeline.tables.incomplete_data import of_lines
from tests.pipeline.journal_files import FIRST, changed, event_line, quota_line, traffic_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOO_LARGE = f"a number is larger than {MOST}, which nothing here is"
BOUNDS = "bounds are not rates of peers, racks and topics, each said once, of 0 or more"
CHANGES = "changes is not a JSON array of places, keys and values"
NEGATIVE = "a count or duration is negative"
SHAPE = "a shape is not of a sidecar's characters, or not of its bytes"
TRAFFIC = traffic_line(FIRST)


def connection_line(**values: Any) -> str:
    said = {"role": "leader", "peer": "102", "cause": "idle", "seconds": 1.0, "replica_fetches": 1, "held_seconds": 0.0}
    return event_line(Kind.CONNECTION, FIRST, **{**said, **values})


def override_line(**values: Any) -> str:
    changes = '[{"place":"mode","key":"enforce","value":false}]'
    return event_line(Kind.OVERRIDE, FIRST, **{"override": "7f3a", "action": "set", "changes": changes, **values})


BAD_BOUNDS = (
    "[", "7", "", '{"peers":5}', '{"peers":{"102":"x"}}', '{"peers":{"102":null}}', '{"peers":{"102":-1}}',
    '{"peers":{"102":1,"102":2}}', '{"peers":{"102":"NaN"}}', '{"racks":{"b":{}}}',
    '{"racks":{"b":{"bytes_per_second":1,"brokers":[102,null]}}}', '{"racks":{"b":{"bytes_per_second":1}}}',
    '{"racks":{"b":{"bytes_per_second":-1,"brokers":[102]}}}', '{"topics":[]}', '{"topics":{"a":-2}}',
)  # fmt: skip
BAD = [
    *((quota_line(bounds=bounds), BOUNDS) for bounds in BAD_BOUNDS),
    (quota_line(role="boss"), "unknown role boss"),
    (quota_line(bytes_per_second=-5.0), "bytes_per_second is not a rate of 0 or more: -5.0"),
    (quota_line(bytes_per_second="NaN"), "bytes_per_second is not a rate of 0 or more: NaN"),
    (quota_line(bytes_per_second="Infinity"), "bytes_per_second is not a rate of 0 or more: Infinity"),
    (quota_line(policy="lenient"), "unknown policy lenient"),
    (quota_line(selection="orders"), "selection is neither * nor a JSON object"),
    (override_line(action="eaten"), "unknown action eaten"),
    *((override_line(changes=changes), CHANGES) for changes in ('{"place":"mode"}', "[null]", "[7]", '[{"key":"x"}]')),
    (override_line(until=10**12), "until is not in seconds since 1970: 1000000000000"),
    (connection_line(role="boss"), "unknown role boss"),
    (connection_line(seconds=-1.0), NEGATIVE),
    (connection_line(replica_fetches=-1), NEGATIVE),
    (connection_line(held_seconds="NaN"), TOO_LARGE),
    (event_line(Kind.DROPPED, FIRST, lines=-1), NEGATIVE),
    (event_line(Kind.CLOCK, FIRST, seconds=1e300), TOO_LARGE),
    (changed(TRAFFIC, shapes=["\U0010ffff"], record_bytes=[2**45]), SHAPE),
    *((changed(TRAFFIC, shapes=[shape]), SHAPE) for shape in ("!", "#", "$", "\\", "\n")),
    (traffic_line(FIRST, record_bytes=0, shapes=["#"]), SHAPE),
]
GOOD = [
    quota_line(),
    quota_line(bytes_per_second=None),
    quota_line(bytes_per_second=0, policy="kip73", selection='{"orders":"0-3"}', reason="of a later day"),
    quota_line(bounds='{"peers":{"102":0},"racks":{"b":{"bytes_per_second":5,"brokers":[]}},"hosts":7}'),
    connection_line(),
    override_line(),
    override_line(until=FIRST, label="move-1", by="anna", because="it is slow"),
    event_line(Kind.CLOCK, FIRST, seconds=-3600.0),
    *(changed(TRAFFIC, shapes=[shape]) for shape in "%+["),
    traffic_line(FIRST, record_bytes=0),
]


@pytest.fixture(scope="module")
def problems(spark: SparkSession) -> dict[str, str | None]:
    """By line, of all that there are."""
    lines = [*(line for line, _ in BAD), *GOOD]
    text = spark.createDataFrame([("f", line) for line in lines], "source string, value string")
    found = parse(text).select("problem").collect()
    return dict(zip(lines, (row.problem for row in found), strict=True))


@pytest.mark.parametrize(("line", "problem"), BAD)
def test_an_event_that_can_be_none_is_set_aside(problems: dict[str, str | None], line: str, problem: str) -> None:
    """A negative rate made a breach of all that passed; bounds of another form ended replay and audit, and a shape of
    another character ended ingest, or took the bytes with it."""
    assert problems[line] == problem


@pytest.mark.parametrize("line", GOOD)
def test_an_event_that_a_sidecar_may_write_is_one(problems: dict[str, str | None], line: str) -> None:
    assert problems[line] is None


def test_of_lines_with_one_reason_the_file_and_the_beginning_of_one_are_told(spark: SparkSession) -> None:
    rows = [("f2", "short", "odd"), ("f1", "x" * 500, "odd"), ("f3", "y", "other")]
    found = of_lines(spark.createDataFrame(rows, "source string, value string, problem string"))
    assert found == [
        f"f1: odd (lines like that, in all files: 2): {'x' * 200}…",
        "f3: other (lines like that, in all files: 1): y",
    ]
