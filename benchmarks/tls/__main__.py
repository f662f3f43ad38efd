"""Side by side in one run, written as a table.

python -m benchmarks.tls                              print it
python -m benchmarks.tls --write docs/benchmarks.md   put it between its marks there
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.brokers.authority import Authority
from lab.host.processes import dies_with_us

from ..byte_path.contenders.peer import MissingError
from ..document_part import DocumentPart
from .ends import CIPHER, openssl_environment, serve
from .measuring import Found, measure, medians, memory_of_each, running
from .reporting import table
from .ways import NAME, WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = DocumentPart("tls")
_AGAIN = "TLS_BENCHMARK_HOME"
"""Set in the process that has the OpenSSL configuration of the benchmark."""


@click.command()
@click.option(
    "--rounds", default=10, show_default=True, type=click.IntRange(1), help="Each way once in every round, in turns."
)
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Of bulk; half as long of what is small.",
)
@click.option("--write", type=click.Path(path_type=Path, exists=True), help="A document with the table's marks.")
@click.option("--leader", type=click.Path(path_type=Path), hidden=True)
def main(*, rounds: int, seconds: float, write: Path | None, leader: Path | None) -> None:
    """Measure TLS 1.3 on both legs: the sidecar beside HAProxy and Envoy."""
    if leader is not None:
        serve(leader)
    home = os.environ.get(_AGAIN)
    if home is None:
        with tempfile.TemporaryDirectory() as made:
            environment = openssl_environment(Path(made)) | {_AGAIN: made}
            again = [*dies_with_us(), sys.executable, "-m", "benchmarks.tls", *sys.argv[1:]]
            done = subprocess.run(again, env=environment, check=False)
        raise SystemExit(done.returncode)
    found = _rounds(Path(home), rounds, seconds)
    text = table({name: medians(runs) for name, runs in found.items()}, rounds)
    click.echo(text)
    if write is not None:
        PART.write(write, text)


@contextmanager
def leading(home: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the leader, with the keys of `home`; yield its process and port."""
    command = [*dies_with_us(), sys.executable, "-m", "benchmarks.tls", "--leader", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as leader:
        try:
            yield leader, int(leader.stdout.readline()) if leader.stdout is not None else 0
        finally:
            leader.kill()


def _rounds(home: Path, rounds: int, seconds: float) -> dict[str, list[Found]]:
    Authority(home).issue("own.pem", [NAME])
    found: dict[str, list[Found]] = {way.name: [] for way in WAYS}
    with ExitStack() as stack:
        _, port = stack.enter_context(leading(home))
        relays = []
        for way in WAYS:
            try:
                relays.append(stack.enter_context(running(way, home, port, CIPHER)))
            except MissingError as error:
                click.echo(str(error), err=True)
        # In a round before all others the connections' windows open, and what is loaded late is loaded.
        measure(relays, seconds, dict.fromkeys(found, 0.0))
        kib = {relay.name: memory_of_each(relay) for relay in relays}
        for number in range(rounds):
            first = number % len(relays)
            for name, one in measure(relays[first:] + relays[:first], seconds, kib).items():
                found[name].append(one)
            click.echo(f"round {number + 1} of {rounds}", err=True)
    return {name: runs for name, runs in found.items() if runs}


if __name__ == "__main__":
    main()
