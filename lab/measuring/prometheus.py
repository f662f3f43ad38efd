"""A real Prometheus: its configuration, its process, and what it answers.

Knows nothing of sidecars or rules: targets and rule files are told it. Blocking, as `lab.sidecars.sidecars`; use the
questions from a thread under Trio. Invariant: whatever way its block ends, no process of it is left.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import LabError
from ..host.addresses import HTTP_PORT, free_subnet
from ..host.processes import Process, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PACKAGE = "prometheus"
"""The Debian package of server and promtool."""
_START_SECONDS = 30.0
_HTTP_SECONDS = 20.0


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Alert(NamedTuple):
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """A target to scrape: `host:port`, its job, and its own labels."""

    job: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)


def required_tool(name: str) -> str:
    """Return the path of `prometheus` or `promtool`. Raises LabError: there is none."""
    found = shutil.which(name)
    if found is None:
        raise LabError(f"`{name}` was not found on PATH: apt-get install {PACKAGE}")
    return found


def promtool(*arguments: str, directory: Path) -> str:
    """Run promtool and return its output. Raises LabError with it if it found something wrong."""
    command = [required_tool("promtool"), *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        raise LabError(f"promtool {' '.join(arguments)}: exit status {done.returncode}\n{said}")
    return said


class Prometheus:
    """One server on a loopback address of its own.

    Args:
        targets: what it scrapes.
        rules: files of rules.
        home: a folder of its own; made.
        interval_seconds: between scrapes, and between evaluations.
    """

    def __init__(
        self, targets: Sequence[Target], rules: Sequence[Path], *, home: Path, interval_seconds: float = 0.25
    ) -> None:
        home.mkdir(parents=True)
        interval = f"{int(interval_seconds * 1000)}ms"
        configuration = home / "prometheus.yml"
        configuration.write_text(_configuration(targets, rules, interval), encoding="utf-8")
        # A port that was found free there; at its usual one, on all addresses, may be one that the machine has.
        address = f"{free_subnet((1,)).http(1)}:{HTTP_PORT}"
        self.url = f"http://{address}"
        self.process = Process(
            "prometheus",
            [
                required_tool("prometheus"),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={home / 'data'}",
                f"--web.listen-address={address}",
                "--log.level=warn",
            ],
            output=home / "prometheus.log",
        )

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises LabError with its last lines."""
        self.process.start()
        await wait_until(self._ready, process=self.process, what="/-/ready said 200", timeout_seconds=_START_SECONDS)

    def query(self, expression: str) -> list[Sample]:
        """Return the expression's value now: a vector, or a scalar as one sample without labels. Raises LabError."""
        data = self._get("/api/v1/query", query=expression)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(found["metric"], float(found["value"][1])) for found in data["result"]]

    def firing(self) -> list[Alert]:
        """Return the alerts that fire now; those that are only pending are left out."""
        return [
            Alert(found["labels"]["alertname"], found["labels"], found["annotations"])
            for found in self._get("/api/v1/alerts")["alerts"]
            if found["state"] == "firing"
        ]

    def unhealthy_rules(self) -> list[str]:
        """Return the rules whose last evaluation failed, with the error."""
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in self._get("/api/v1/rules")["groups"]
            for rule in group["rules"]
            if rule["health"] == "err"
        ]

    def _ready(self) -> bool:
        try:
            # The URL is our own.
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_HTTP_SECONDS) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_HTTP_SECONDS) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise LabError(f"prometheus: {path} {parameters}: {refusal.read().decode()}") from refusal
        except OSError as error:
            raise LabError(f"prometheus: GET {path}: {error}") from error
        return found


def _configuration(targets: Sequence[Target], rules: Sequence[Path], interval: str) -> str:
    """Return the configuration as JSON, which is YAML too."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for target in targets:
        static = {"targets": [target.address], "labels": dict(target.labels)}
        jobs.setdefault(target.job, []).append(static)
    return json.dumps(
        {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": job, "static_configs": found} for job, found in jobs.items()],
        },
        indent=1,
    )
