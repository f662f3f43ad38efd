"""Measurements as values and as lines of a file: a benchmark may be run in pieces and reported as one.

Invariant: what is read is what was appended; a file holds rows of three kinds, in the order in which they came.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .loads import Load
from .usage import Memory, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .contenders.peer import Peer

_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one load through one peer. Bytes are those of whole responses; GB are 10**9 bytes.

    `pair` is what leader and follower used, for the record; `seconds` is how long was counted.
    """

    peer: str
    load: Load
    seconds: float
    bytes: int
    fetches: int
    p50_us: float | None
    p99_us: float | None
    proxy: Usage
    pair: Usage
    memory: Memory
    others_cores: float
    """The cores that everything else on the machine kept busy meanwhile: in a fair run, next to nothing."""

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.proxy.cpu_seconds * 1e9 / self.bytes

    @property
    def cpu_us_per_fetch(self) -> float:
        return self.proxy.cpu_seconds * 1e6 / self.fetches

    @property
    def wakes_per_fetch(self) -> float:
        return self.proxy.wakes / self.fetches

    @property
    def cores(self) -> float:
        """Share of a core that the proxy kept busy."""
        return self.proxy.cpu_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a measurement, and of each peer the version and configuration in words."""

    cores: int
    kernel: str
    congestion_control: str
    peers: dict[str, str]
    python: str = ""
    """The interpreter that runs the sidecar; empty in files of runs from before it was noted."""


@dataclass(slots=True)
class Runs:
    """All runs that some files hold. `suites` are runs by the benchmark they belong to."""

    suites: dict[str, list[Result]] = field(default_factory=dict)
    machines: list[Machine] = field(default_factory=list)
    memory: dict[str, list[tuple[float, Memory]]] = field(default_factory=dict)
    """The seconds since its start, and the memory held then, by what ran."""


def this_machine(peers: Iterable[Peer]) -> Machine:
    """Describe this machine and those of the peers that it has."""
    return Machine(
        cores=os.cpu_count() or 1,
        kernel=platform.release(),
        congestion_control=_CONGESTION_CONTROL.read_text("ascii").strip(),
        peers={peer.name: " ".join(filter(None, (peer.version(), peer.about))) for peer in peers},
        # Its build counts: one without profile-guided optimisation takes a tenth more.
        python=f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()})",
    )


class RunsFile:
    """The file to which runs are appended, one JSON object per line; without a path they are not kept."""

    def __init__(self, path: Path | None, suite: str) -> None:
        self._path, self._suite = path, suite
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, result: Result) -> None:
        self._append({"kind": "run", "suite": self._suite, **asdict(result)})

    def add_machine(self, machine: Machine) -> None:
        self._append({"kind": "machine", **asdict(machine)})

    def add_memory(self, what: str, samples: Sequence[tuple[float, Memory]]) -> None:
        self._append({"kind": "memory", "what": what, "samples": samples})

    def _append(self, row: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as sink:
                print(json.dumps(row), file=sink)


def read(paths: Iterable[Path]) -> Runs:
    """Read the runs of these files. Raises ValueError that names file and line of a row that is none of ours."""
    found = Runs()
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            try:
                _take(found, json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}:{number}: expected a row of byte_path, found {line[:60]!r}") from error
    return found


def _take(found: Runs, row: dict[str, Any]) -> None:
    kind = row.pop("kind")
    if kind == "run":
        suite = row.pop("suite")
        parts = {"load": Load(**row.pop("load")), "proxy": Usage(*row.pop("proxy")), "pair": Usage(*row.pop("pair"))}
        found.suites.setdefault(suite, []).append(Result(**row | parts | {"memory": Memory(*row["memory"])}))
    elif kind == "machine":
        found.machines.append(Machine(**row))
    elif kind == "memory":
        found.memory[row["what"]] = [(at, Memory(*held)) for at, held in row["samples"]]
    else:
        raise ValueError(f"kind {kind!r}")
