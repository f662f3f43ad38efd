"""The command that does a single step of a move, as an operator types it. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NO_FILE = "REASSIGNMENT.json"
"""Stands for the file of a move that goes on by its label alone."""


def cluster_words(bootstrap: Sequence[str], properties: Path | None, hosts: Path | None) -> str:
    """Return the options that name a cluster again; HOST:PORT if there are none."""
    words = [
        *(word for server in bootstrap or ("HOST:PORT",) for word in ("--bootstrap", server)),
        *(() if properties is None else ("--command-config", str(properties))),
        *(() if hosts is None else ("--hosts", str(hosts))),
    ]
    return shlex.join(words)


class ByHand(NamedTuple):
    """Args:
    reassignment: the file; `NO_FILE` if it is not known.
    cluster: the options that name the cluster.
    where: the options that name the sidecars, with a blank before them.
    label: of the move's overrides.
    rate: the options of the rate, such as ``--rate 20MiB/s``.
    bootstrap, properties: for Kafka's own tool.
    """

    reassignment: str
    cluster: str
    where: str
    label: str
    rate: str = "--rate RATE"
    bootstrap: tuple[str, ...] = ()
    properties: Path | None = None

    @property
    def file(self) -> str:
        return shlex.quote(self.reassignment)

    @property
    def _label(self) -> str:
        return shlex.quote(self.label)

    def plan(self) -> str:
        return f"throttle-sidecar plan {self.file} {self.cluster} {self.rate}"

    def throttle(self) -> str:
        return f"{self.plan()} --apply{self.where} --label {self._label}"

    def execute(self) -> str:
        return f"{self._kafka()} --execute"

    def watch(self) -> str:
        return f"throttle-sidecar status{self.where}"

    def verify(self, options: str = "--remove") -> str:
        line = f"throttle-sidecar verify {self.file} {self.cluster}{self.where} --label {self._label} {options}"
        return line.rstrip()

    def undo(self) -> str:
        return f"throttle-sidecar undo --label {self._label}{self.where}"

    def resume(self) -> str:
        return self._move("resume")

    def cancel(self) -> str:
        return self._move("cancel")

    def steps(self) -> list[str]:
        """Return a line for each step of the move, with the command that does it alone."""
        return [
            f"plan     {self.plan()}",
            f"throttle {self.throttle()}",
            f"execute  {self.execute()}",
            f"watch    {self.watch()}",
            f"remove   {self.verify()}",
        ]

    def steps_back(self) -> list[str]:
        """Return a line for each step of taking it back."""
        return [
            f"cancel   {self._kafka()} --cancel --preserve-throttles",
            f"undo     {self.undo()}",
        ]

    def go_on(self) -> list[str]:
        """Return how to go on with the move, and how to take it back."""
        return [f"go on with it: {self.resume()}", f"take it back:  {self.cancel()}"]

    def _move(self, how: str) -> str:
        return f"throttle-sidecar move --{how} {self._label} {self.cluster}{self.where}"

    def _kafka(self) -> str:
        servers = shlex.quote(",".join(self.bootstrap) or "HOST:PORT")
        config = "" if self.properties is None else f" --command-config {shlex.quote(str(self.properties))}"
        tool = f"kafka-reassign-partitions --bootstrap-server {servers}{config}"
        return f"{tool} --reassignment-json-file {self.file}"
