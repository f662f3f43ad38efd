from __future__ import annotations

from benchmarks.byte_path.loads import BULK, SMALL
from benchmarks.byte_path.report.tables import disturbance, explain, tables
from benchmarks.byte_path.runs import Machine, Result
from benchmarks.byte_path.usage import Memory, Usage


def _run(peer: str, *, size: int, cpu: float, small: bool = False, others_cores: float = 0.0) -> Result:
    return Result(
        peer=peer, load=SMALL if small else BULK[0], seconds=2.0, bytes=size, fetches=1000,
        p50_us=40.0 if peer == "haproxy" else 60.0, p99_us=None, proxy=Usage(cpu, 2000), pair=Usage(0.1, 10),
        memory=Memory(2 << 20, 1 << 20), others_cores=others_cores,
    )  # fmt: skip


def test_medians_of_runs_and_ratios_to_haproxy() -> None:
    runs = [
        *(_run("haproxy", size=size, cpu=1.0) for size in (2_000_000_000, 1_000_000_000, 9_000_000_000)),
        _run("opaque", size=4_000_000_000, cpu=0.5),
    ]
    assert tables(runs).splitlines()[2:] == [
        "| haproxy | 1.00 (1.00) | 0.500 (1.00) | 0.050 | 2 | 1.0 |",
        "| opaque | 2.00 (2.00) | 0.125 (0.25) | 0.025 | 2 | 1.0 |",
    ]


def test_small_fetches_have_times_and_what_was_not_measured_stays_empty() -> None:
    runs = [_run("haproxy", size=10, cpu=0.02, small=True), _run("opaque", size=10, cpu=0.03, small=True)]
    assert tables(runs).splitlines()[2:] == [
        "| haproxy | 40 (1.00) |  | 20.0 (1.00) | 2.0 | 1.0 |",
        "| opaque | 60 (1.50) |  | 30.0 (1.50) | 2.0 | 1.0 |",
    ]


def test_without_haproxy_there_are_no_ratios() -> None:
    assert tables([_run("opaque", size=4_000_000_000, cpu=0.5)]).splitlines()[2] == (
        "| opaque | 2.00 | 0.125 | 0.025 | 2 | 1.0 |"
    )


def test_machine_and_peers_are_explained() -> None:
    machine = Machine(cores=2, kernel="6.1", congestion_control="bbr", peers={"fast": "Fast 1.2 with large buffers"})
    assert explain(machine).splitlines() == [
        "2 cores, Linux 6.1, TCP congestion control bbr.",
        "",
        "* fast: Fast 1.2 with large buffers",
    ]


def test_the_interpreter_is_told() -> None:
    machine = Machine(cores=2, kernel="6.1", congestion_control="bbr", peers={}, python="CPython 3.11.2 (GCC 12.2.0)")
    assert explain(machine).splitlines()[0] == (
        "2 cores, Linux 6.1, TCP congestion control bbr, CPython 3.11.2 (GCC 12.2.0)."
    )


def test_a_machine_that_was_busy_otherwise_is_told() -> None:
    quiet = [_run("opaque", size=10, cpu=0.1, others_cores=cores) for cores in (0.01, 0.02, 0.5)]
    busy = [_run("opaque", size=10, cpu=0.1, others_cores=0.5)]
    assert disturbance(quiet) == "Everything else on the machine used 0.02 cores (median of runs), 0.50 at most."
    assert disturbance(busy).endswith(": NOT a quiet machine, do not trust these figures.")
