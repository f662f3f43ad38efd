"""Which jobs the benchmark of the pipeline measures, and what it makes of their costs."""

from __future__ import annotations

import pytest

from benchmarks import pipeline
from benchmarks.pipeline import JOBS, Cost, table
from pipeline.cli import COMMANDS
from pipeline.questions.asking import QUESTIONS


def test_every_job_and_every_question_is_measured() -> None:
    measured = [job.arguments.split() for job in JOBS.values()]
    assert {words[0] for words in measured} == {command.name for command in COMMANDS}
    assert {words[1] for words in measured if words[0] == "ask"} == set(QUESTIONS)


def cost(job: str, rows: int, cpu_seconds: float) -> Cost:
    return Cost(job, rows, 1.0, cpu_seconds, 900_000_000, 0, 3 * rows, 0)


def test_the_table_has_a_row_for_each_job_and_the_last_cost_of_each_size() -> None:
    costs = [cost("audit", 10**5, 99.0), cost("audit", 10**6, 23.6), cost("audit", 10**5, 20.0), cost("lag", 10**6, 30)]
    assert list(table(costs)) == [
        "Of 100 000, 1 000 000 rows:\n",
        "| job | CPU, s | µs a further row | shuffled, B a row | JVM's peak, MB |",
        "|---|---|---|---|---|",
        "| audit | 20 / 24 | 4.0 | 3.0 / 3.0 | 900 / 900 |",
        "| lag | 30 |  | 3.0 | 900 |",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "1e6", "12345"], "expected a multiple of 50000 rows, found 12345"),
        (["--rows", "0"], "expected a multiple of 50000 rows, found 0"),
        (["--rows", "9e8", "--jobs", "audit"], "no tables of 900000000 rows yet: expected ingest among --jobs"),
    ],
)
def test_wrong_arguments_are_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        pipeline.main(arguments)
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
