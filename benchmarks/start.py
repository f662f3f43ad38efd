"""The cost of a start: CPU of `throttle-sidecar run` until `/readyz` first answers 200, and its parts.

    python -m benchmarks.start [--beside COMMIT] [--rounds 25] [--tls]

The checkout, and the commit to compare it with, are installed as in the image: the locked packages, without those for
tests, and with bytecode. A program that may not write beside its libraries would otherwise compile all of them at each
start. Each round starts every program once, every second round in the other order. CPU is the process's own clock (user
and system), read when the answer has come. A start is asked every 3 ms whether it listens.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.brokers.authority import Authority
from lab.host.addresses import held_ports
from lab.host.processes import dies_with_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
LIMIT_SECONDS = 60.0
ASK_SECONDS = 0.003
REQUEST = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
QUOTAS = '[brokers.default]\nleader.replication.throttled.rate = "50MiB/s"\n'
KEYS = (
    '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
    '[ingress.tls.upstream]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
)
PARTS = (
    "pass",
    "import trio",
    "import trio, click, msgspec, h11",
    "import gc; gc.disable(); import operating.running",
)

_ANEW = ("--refresh-package", "kafka-throttle-sidecar")  # uv takes sources for unchanged where pyproject.toml is


def install(tree: Path, into: Path) -> Path:
    """Return the folder of the environment's programs, as the Dockerfile makes it."""
    environment = {
        **os.environ, "UV_PROJECT_ENVIRONMENT": str(into), "UV_PYTHON": sys.executable, "UV_LINK_MODE": "copy",
        "UV_COMPILE_BYTECODE": "1", "PYC_INVALIDATION_MODE": "UNCHECKED_HASH",
    }  # fmt: skip
    sync = (UV, "sync", "--quiet", "--frozen", "--no-dev", "--extra", "operator", "--no-editable", *_ANEW)
    subprocess.run(sync, cwd=tree, env=environment, check=True)
    return into / "bin"


def tree_of(commit: str, into: Path) -> Path:
    """Return a folder with what the commit has. Raises CalledProcessError if there is none."""
    into.mkdir()
    with subprocess.Popen(("git", "archive", commit), cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(("tar", "x", "-C", into), stdin=archive.stdout, check=True)
    if archive.returncode:
        raise click.BadParameter(f"expected a commit, found {commit!r}", param_hint="--beside")
    return into


def started(programs: Path, home: Path, *, tls: bool) -> float:
    """Return CPU seconds of one start, with the two milliseconds of the command that has it end with us."""
    command = [*dies_with_us(), str(programs / "throttle-sidecar"), "run", "--config", str(home / "proxy.toml")]
    with held_ports(2) as (listen, port):
        config = f'[broker]\nid = 101\n[http]\nlisten = "127.0.0.1:{port}"\n[quotas]\nfile = "quotas.toml"\n'
        config += f'[ingress]\nlisten = "127.0.0.1:{listen}"\nupstream = "127.0.0.1:19092"\n{KEYS if tls else ""}'
        (home / "proxy.toml").write_text(config)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                return _cpu_until_ready(process, port)
            finally:
                process.kill()


def _cpu_until_ready(process: subprocess.Popen[bytes], port: int) -> float:
    clock = ~process.pid << 3 | 2  # of all its threads: clock_getcpuclockid(3), which Python does not have
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as connection:
                connection.sendall(REQUEST)
                if connection.recv(4096).startswith(b"HTTP/1.1 200 "):
                    return time.clock_gettime(clock)
        except ConnectionError:
            time.sleep(ASK_SECONDS)
    raise click.ClickException(f"expected a ready sidecar within {LIMIT_SECONDS:g} s, found status {process.poll()}")


def python(programs: Path, code: str) -> float:
    """Return CPU seconds of a Python that does no more than that and does not tidy up: a start has no end."""
    # -I: not what lies in the working directory.
    process = subprocess.Popen((programs / "python", "-I", "-c", f"{code}\nimport os\nos._exit(0)"))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"python -c {code!r} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def table(found: dict[str, list[float]], beside: str) -> str:
    """Return medians and bounds, and the median of the ratios to `beside` of the same round."""
    lines = [f"| | CPU, ms | least to most | over that of {beside} |", "|---|---|---|---|"]
    for name, seconds in found.items():
        ratio = statistics.median(own / other for own, other in zip(seconds, found[beside], strict=True))
        least, middle, most = (1000 * each for each in (min(seconds), statistics.median(seconds), max(seconds)))
        lines.append(f"| {name} | {middle:.0f} | {least:.0f} to {most:.0f} | {ratio:.2f} |")
    return "\n".join(lines)


def measure(arms: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        names: Sequence[str] = list(arms)
        for name in names[:: -1 if number % 2 else 1]:
            found[name].append(arms[name]())
    return found


@click.command()
@click.option("--beside", metavar="COMMIT", help="An earlier commit to start in turns with this checkout.")
@click.option("--rounds", default=25, show_default=True, type=click.IntRange(1))
@click.option("--tls", is_flag=True, help="With keys of both legs of the ingress.")
def main(beside: str | None, rounds: int, *, tls: bool) -> None:
    """Measure what a start of this checkout costs."""
    with tempfile.TemporaryDirectory(prefix="start-") as folder:
        home = Path(folder)
        Authority(home).issue("own.pem", ["kafka-101", "127.0.0.1"])
        (home / "quotas.toml").write_text(QUOTAS)
        trees = {"this checkout": ROOT} | ({} if beside is None else {beside: tree_of(beside, home / "tree")})
        arms: dict[str, Callable[[], float]] = {}
        for number, (name, tree) in enumerate(trees.items()):
            programs = install(tree, home / f"environment{number}")
            arms[name] = partial(started, programs, home, tls=tls)
        first = home / "environment0" / "bin"
        arms |= {f"`{code}`": partial(python, first, code) for code in PARTS}
        click.echo(table(measure(arms, rounds), "this checkout" if beside is None else beside))


if __name__ == "__main__":
    main()
