"""python -m tests.world: draw scenes for a stated time; say what was covered, and the smallest that fails."""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from .explore import FAIR, KINDS, LEAST_SHARE, drawn, judged, smallest
from .faults import KINDS as FAULTS

if TYPE_CHECKING:
    from .explore import Report
    from .scene import Scene


def _one(task: tuple[str, int, float]) -> Report:
    kind, seed, least_share = task
    return judged(kind, seed, drawn(kind, seed), least_share=least_share)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long new scenes are begun (5)")
    parser.add_argument("--count", type=int, help="so many scenes instead")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; drawn otherwise, and printed")
    parser.add_argument("--kind", choices=KINDS, action="append", help="these alone")
    least = f"who has less of its share starves ({LEAST_SHARE})"
    parser.add_argument("--least-share", type=float, default=LEAST_SHARE, help=least)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", help="a file for one line of JSON of each scene")
    options = parser.parse_args(argv)
    first = options.seed if options.seed is not None else int(time.time()) % 10**6 * 1000
    kinds = options.kind or KINDS
    ends = time.monotonic() + 60 * options.minutes
    print(f"seed {first}, kinds {' '.join(kinds)}, {options.jobs} processes", flush=True)

    def tasks() -> itertools.chain[tuple[str, int, float]]:
        endless = ((kind, seed, options.least_share) for seed in itertools.count(first) for kind in kinds)
        if options.count:
            return itertools.chain(itertools.islice(endless, options.count * len(kinds)))
        return itertools.chain(itertools.takewhile(lambda _: time.monotonic() < ends, endless))

    reports: list[Report] = []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        found = pool.imap(_one, _few_ahead(tasks(), reports, 2 * options.jobs))
        for report in found:
            reports.append(report)
            if report.complaints:
                print(f"{report.kind} {report.seed}: {report.complaints[0]} (of {len(report.complaints)})", flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as out:  # noqa: PTH123
                    out.write(json.dumps(_line(report)) + "\n")
    return summary(reports, options.least_share)


def _few_ahead(tasks: itertools.chain[tuple[str, int, float]], done: list[Report], most: int):  # type: ignore[no-untyped-def]
    """Pass tasks on as they are done, so that the time is looked at when each is begun."""
    for number, task in enumerate(tasks):
        while number - len(done) >= most:
            time.sleep(0.05)
        yield task


def summary(reports: list[Report], least_share: float) -> int:
    """Print what was found; return the exit code."""
    faults: Counter[str] = sum((report.faults for report in reports), Counter())
    hours = sum(report.seconds for report in reports) / 3600
    failed = [report for report in reports if report.complaints]
    print(f"\n{len(reports)} scenes, {hours:.1f} hours of virtual time, {len(failed)} failed")
    for kind in KINDS:
        ratios = sorted(each.ratio for report in reports if report.kind == kind for each in report.shares)
        excess = sorted(report.excess for report in reports if report.kind == kind)
        if ratios:
            below = sum(ratio < FAIR for ratio in ratios)
            print(f"{kind}: {distribution(ratios)}; below {FAIR}: {below} of {len(ratios)}")
            print(f"  beyond the rate, in bursts and batches: {distribution(excess)}")
    print("faults: " + ", ".join(f"{name} {faults[name]}" for name in FAULTS))
    judges = Counter(each.split(":")[0].split(" of ")[0][:40] for report in failed for each in report.complaints)
    for judge, count in judges.most_common(12):
        print(f"  {count} x {judge}")
    if failed:
        worst = min(failed, key=lambda report: len(report.faults))
        scene, report = smallest(worst, drawn(worst.kind, worst.seed), least_share=least_share)
        show(scene, report)
    return 1 if failed else 0


def show(scene: Scene, report: Report) -> None:
    print(f"\nthe smallest of {report.kind} {report.seed} (--kind {report.kind} --seed {report.seed} --count 1):")
    for broker, spec in scene.sidecars.items():
        print(f"  sidecar {broker}: {spec}")
    for fetch in scene.fetches:
        print(f"  {fetch}")
    for act in scene.acts:
        print(f"  at {act.at:.2f} {act.kind}")
    print(f"  cuts {scene.cuts}, busy {scene.busy}, racks {dict(scene.racks)}")
    for complaint in report.complaints[:5]:
        print(f"  {complaint}")


def distribution(values: list[float]) -> str:
    places = [("least", 0.0), ("1 %", 0.01), ("5 %", 0.05), ("median", 0.5), ("95 %", 0.95), ("most", 1.0)]
    return ", ".join(f"{name} {values[min(int(part * len(values)), len(values) - 1)]:.2f}" for name, part in places)


def _line(report: Report) -> dict[str, object]:
    return {
        "kind": report.kind, "seed": report.seed, "complaints": report.complaints, "trace": report.trace,
        "excess": report.excess, "shares": [[*each, each.ratio] for each in report.shares],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
