"""The cost of the webhook to pods: dry runs on a real API server at a fixed rate, with and without the label.

    python -m benchmarks.webhook [--rate 100] [--seconds 10] [--write docs/benchmarks.md]

Requests are due by the clock, and a time counts from the moment its request was due (no coordinated omission). Every
answer is checked: a pod that asked has its sidecar, and one that did not has none.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import ssl
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click
import trio
import yaml

from lab.brokers.authority import Authority
from lab.errors import LabError
from lab.host.processes import Process, accepts_connections, kill_all, wait_until
from lab.kubernetes.control_plane import control_plane
from lab.sidecars.sidecars import throttle_sidecar_script

from .document_part import DocumentPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kubernetes.control_plane import ControlPlane

PART = DocumentPart("webhook")
CHART = Path(__file__).parents[1] / "deploy" / "helm"
LABEL = "kafka-throttle-sidecar/inject"
PORT = 8443
CONNECTIONS = 8
TURNS = 5
"""The turns of each kind of pod, so that both find the machine in the same states."""
START_SECONDS = 30.0
NAME = "kafka-0.kafka"
BROKERS = [
    {"id": 0, "pod": "kafka-0", "name": NAME, "address": f"{NAME}.svc"},
    {"id": 1, "pod": "kafka-1", "name": "kafka-1.kafka", "address": "kafka-1.kafka.svc"},
]
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "kafka-0", "labels": {"app": "kafka"}},
    "spec": {"containers": [{"name": "kafka", "image": "apache/kafka:4.1.0"}]},
}


class Answered(NamedTuple):
    seconds: float
    good: bool


class Load:
    """Dry runs of one pod over a few connections that stay open."""

    def __init__(self, cluster: ControlPlane, pod: dict[str, Any], *, asks: bool) -> None:
        self._host = urlsplit(cluster.url).netloc
        self._tls = ssl.create_default_context(cafile=str(cluster.certificate_authority))
        users = json.loads(cluster.kubeconfig.read_text())["users"]
        self._headers = {
            "Authorization": f"Bearer {users[0]['user']['token']}",
            "Content-Type": "application/json",
        }
        self._body = json.dumps(pod).encode()
        self._asks = asks
        self._lock = threading.Lock()
        self._next = 0

    def run(self, rate: float, seconds: float) -> list[Answered]:
        """Run requests on connections that are open and have had an answer: the handshake's cost is not the webhook's.

        Raises OSError: a connection is lost.
        """
        with contextlib.ExitStack() as opened:
            connections = [opened.enter_context(contextlib.closing(self._connected())) for _ in range(CONNECTIONS)]
            self._next = 0
            began = time.monotonic()
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                work = partial(self._work, began=began, rate=rate, count=max(1, round(rate * seconds)))
                return [answer for answers in pool.map(work, connections) for answer in answers]

    def _connected(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
        self._ask(connection)
        return connection

    def _work(
        self, connection: http.client.HTTPSConnection, *, began: float, rate: float, count: int
    ) -> list[Answered]:
        answers: list[Answered] = []
        while True:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if number >= count:
                return answers
            due = began + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            good = self._ask(connection)
            answers.append(Answered(time.monotonic() - due, good))

    def _ask(self, connection: http.client.HTTPSConnection) -> bool:
        """True if the answer is what it should be."""
        connection.request("POST", "/api/v1/namespaces/kafka/pods?dryRun=All", self._body, self._headers)
        answer = connection.getresponse()
        has = b'"throttle-sidecar"' in answer.read()
        return answer.status == 201 and has == self._asks


def measure(cluster: ControlPlane, home: Path, rate: float, seconds: float) -> dict[str, list[Answered]]:
    """Measure both kinds of pod, in turns. Raises LabError: the webhook does not start."""
    asking = copy.deepcopy(POD)
    asking["metadata"]["labels"][LABEL] = "true"
    with _webhook(cluster, home):
        loads = {
            "a pod that asks": Load(cluster, asking, asks=True),
            "a pod that does not": Load(cluster, POD, asks=False),
        }
        found: dict[str, list[Answered]] = {name: [] for name in loads}
        for _ in range(TURNS):
            for name, load in loads.items():
                found[name] += load.run(rate, seconds / TURNS)
    return found


@contextlib.contextmanager
def _webhook(cluster: ControlPlane, home: Path) -> Iterator[None]:
    """Run the chart's webhook on this machine, registered."""
    authority = Authority(home / "authority")
    identity = authority.issue("webhook.pem", [cluster.address])
    values = {
        "brokers": BROKERS,
        "webhook": {
            "create": True,
            "url": f"https://{cluster.address}:{PORT}/inject",
            "secretName": "elsewhere",
            "authority": authority.certificate.read_text(),
        },
    }
    (home / "values.yaml").write_text(yaml.safe_dump(values))
    verb = ("upgrade", "--install", "--create-namespace", "--namespace=kafka", "throttle", str(CHART))
    cluster.helm("helm 4", *verb, "--values", str(home / "values.yaml"))
    addition = cluster.get("configmap", "throttle-webhook", "--namespace=kafka")["data"]["addition.json"]
    (home / "addition.json").write_text(addition)
    command = [
        throttle_sidecar_script(), "webhook", f"--listen={cluster.address}:{PORT}", f"--certificate={identity}",
        f"--key={identity}", f"--addition={home / 'addition.json'}",
    ]  # fmt: skip
    webhook = Process("webhook", command, output=home / "webhook.log")
    webhook.start()
    try:
        trio.run(until_listening, webhook, cluster.address)
        time.sleep(2)  # the API server learns of the registration, and makes the namespace's service account
        yield
    finally:
        kill_all([webhook])


async def until_listening(webhook: Process, address: str) -> None:
    """Wait until it listens. Raises LabError, with its last lines, if it ended or took too long."""
    there = partial(accepts_connections, address, PORT)
    await wait_until(there, process=webhook, what="it listened", timeout_seconds=START_SECONDS)


def table(found: dict[str, list[Answered]]) -> str:
    lines = ["| | answers | wrong ones | median | p99 | worst |", "|---|---|---|---|---|---|"]
    for what, answers in found.items():
        times = sorted(each.seconds for each in answers)
        cells = [statistics.median(times), times[int(0.99 * len(times))], times[-1]]
        wrong = sum(not each.good for each in answers)
        shown = " | ".join(f"{1000 * cell:.0f} ms" for cell in cells)
        lines.append(f"| {what} | {len(answers)} | {wrong} | {shown} |")
    return "\n".join(lines)


@click.command()
@click.option("--rate", default=100.0, show_default=True, type=click.FloatRange(0.1), help="Pods a second.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0.1))
@click.option("--write", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Put the table there.")
def main(rate: float, seconds: float, write: Path | None) -> None:
    """Measure what the webhook costs who makes pods."""
    try:
        with tempfile.TemporaryDirectory() as home, control_plane() as cluster:
            found = measure(cluster, Path(home), rate, seconds)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    text = f"{rate:g} pods a second for {seconds:g} s, over {CONNECTIONS} connections:\n\n{table(found)}"
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()
