"""Entry point of `python -m benchmarks.month`."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from . import __doc__ as about
from .jobs import JOBS, measure
from .journals import write
from .outages import Month


def main() -> None:
    """Write the journals, or have the jobs at them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.month", description=(about or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    journals = verbs.add_parser("journals", help="write them, and truth.json beside them")
    jobs = verbs.add_parser("jobs", help="have the pipeline at them, and hold it against the truth")
    for verb in (journals, jobs):
        verb.add_argument("folder", type=Path)
    journals.add_argument("--brokers", type=int, default=100)
    journals.add_argument("--days", type=int, default=30)
    journals.add_argument("--scale", type=float, default=1.0, help="how large partitions are: 1 is some 6 GB each")
    jobs.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS))
    jobs.add_argument("--cores", type=int, default=1)
    jobs.add_argument("--memory", default="2g", help="heap of the driver, which in local mode does it all")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.verb == "jobs":
        for cost, said in measure(folder, options.jobs, cores=options.cores, memory=options.memory):
            print(f"{cost}: {said}", flush=True)
        return
    shutil.rmtree(folder / "journals", ignore_errors=True)
    truth = write(Month(options.brokers, options.days, options.scale), folder / "journals")
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", "utf-8")
    print(f"{truth['rows']} seconds of partitions, {truth['moves']} moves, {truth['moved_bytes']} bytes moved")


if __name__ == "__main__":
    main()
