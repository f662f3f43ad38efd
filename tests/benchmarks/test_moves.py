"""The tables of moves: what stands in them, and that nothing else in the document is touched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from benchmarks.moves import main, table, table_by_version, table_of_secured

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = {
    "side": "leader",
    "duration_seconds": 8.0,
    "mean_over_quota": 1.004,
    "worst_second_over_quota": 1.25,
    "worst_11_seconds_over_quota": 1.0,
    "deviation_over_quota": 0.031,
    "fetches_per_second": 11.7,
}
VERSION = {"fetch_version": 17, "kafka": "3.9.1", "protocol": "3.9", "mode": "kraft"}
DOCUMENT = """before
<!-- moves: begin -->
old
<!-- moves: end -->
between
<!-- moves by version: begin -->
older
<!-- moves by version: end -->
after
"""


def lines(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_case_has_a_row_for_each_who_throttled() -> None:
    rows = [{"case": "one", "how": how, **FIGURES} for how in ("native cold", "sidecar strict")]
    assert table(rows).splitlines()[2:] == [
        "| one | broker, cold | 1.00 | 1.25 | 1.00 | 0.03 | 11.7 |  |  |",
        "| one | **sidecar strict** | 1.00 | 1.25 | 1.00 | 0.03 | 11.7 |  |  |",
    ]


def test_a_version_has_a_row_per_side_with_the_brokers_own_first() -> None:
    own = FIGURES | {"how": "native cold", "mean_over_quota": 1.8, "duration_seconds": 4.0, "live_p95_ms": 5.2}
    ours = FIGURES | {"how": "sidecar strict", "live_p95_ms": 4.0}
    made = table_by_version([VERSION | own, VERSION | ours, VERSION | ours | {"side": "follower"}]).splitlines()[2:]
    leader, follower = ([cell.strip() for cell in line.strip("|").split("|")] for line in made)
    assert leader[:3] == ["v17", "3.9 on 3.9.1, KRaft", "leader"]
    assert leader[3:] == ["1.80, **1.00**", "1.25, **1.25**", "-, **0.03**", "12, **12**", "5, **4**", "-, **-**"]
    assert follower[2:] == ["follower", "**1.00**", "**1.25**", "**0.03**", "**12**", "**4**", "**-**"]


def test_a_secured_cluster_has_a_row_with_the_three_sides_in_each_cell() -> None:
    about = {"kafka": "4.3.0", "protocol": "4.3", "fetch_versions": {"18": 90}, "how": "sidecar strict"}
    rows = [
        FIGURES | about | {"security": security, "side": side, "mean_over_quota": mean}
        for security in ("sasl_ssl", "mtls")
        for side, mean in (("both", 1.03), ("leader", 0.5), ("leader", 1.01))
    ]
    made = table_of_secured(rows).splitlines()[2:]
    assert [line.split(" | ")[2] for line in made] == ["mTLS on both legs", "SASL_SSL, SCRAM-SHA-512"]
    assert made[0] == "| v18 | 4.3 on 4.3.0 | mTLS on both legs | 1.01, , 1.03 | 1.25, , 1.25 | -, , - | -, , - |"


@pytest.mark.parametrize("both", [True, False], ids=["both measured", "one measured"])
def test_only_what_is_between_the_marks_of_measured_tables_is_written(tmp_path: Path, both: bool) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(DOCUMENT, "utf-8")
    moves = tmp_path / "moves.jsonl"
    if both:
        lines(moves, {"case": "one", "how": "sidecar strict", **FIGURES})
    versions = lines(tmp_path / "versions.jsonl", VERSION | FIGURES | {"how": "sidecar strict"})
    said = CliRunner().invoke(
        main,
        [
            "--results",
            str(moves),
            "--versions",
            str(versions),
            "--secured",
            str(tmp_path / "none"),
            "--write",
            str(document),
        ],
    )
    assert said.exit_code == 0, said.output
    written = document.read_text("utf-8")
    assert ("\nold\n" in written) != both
    assert "\nolder\n" not in written
    assert "| v17 |" in written
    assert [line for line in written.splitlines() if line in ("before", "between", "after")] == [
        "before", "between", "after",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "document", "said"),
    [
        (None, DOCUMENT, "run `make system` first"),
        ("{}x\n", DOCUMENT, "versions.jsonl:1: expected a line of JSON"),
        ("", "no marks", "expected the marks <!-- moves by version: begin -->"),
    ],
    ids=["nothing measured", "not JSON", "no marks"],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: str | None, document: str, said: str) -> None:
    versions, where = tmp_path / "versions.jsonl", tmp_path / "benchmarks.md"
    if content is not None:
        versions.write_text(content, "utf-8")
    where.write_text(document, "utf-8")
    none = str(tmp_path / "none")
    arguments = ["--results", none, "--versions", str(versions), "--secured", none, "--write", str(where)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert said in result.output
    assert where.read_text("utf-8") == document
