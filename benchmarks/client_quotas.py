"""Clients of several libraries under the sidecar's quotas and, in the same run, under the broker's own.

    python -m benchmarks.client_quotas                              measure every case, and print the table
    python -m benchmarks.client_quotas --case librdkafka            measure one again
    python -m benchmarks.client_quotas --no-run                     print what was measured before
    python -m benchmarks.client_quotas --write docs/benchmarks.md   put the table between its marks there as well

Five producers, one of each codec, with a client id and a quota of 1 MB/s each; then a group of two consumers. Results
are added to build/client_quotas.jsonl; the table shows the last of each. Invariant: a row is of clients that lost
nothing, got nothing twice and noticed no failure, else there is none.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import trio

from lab.brokers.releases import release
from lab.clients.impatient_producer import ImpatientProducer
from lab.clients.program import ingresses
from lab.clients.quota_client import QuotaClient, set_client_quotas
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.load.live_producer import LIVE, LiveProducer
from lab.moves.scenes import topic
from lab.sidecars.sidecars import SidecarPlan

from .document_part import DocumentPart
from .results import BUILD, keep, kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.clients.quota_client import Flow, Outcome
    from lab.cluster.cluster import Cluster

RESULTS = BUILD / "client_quotas.jsonl"
PART = DocumentPart("client quotas")
BROKERS = BROKER, OTHER = 101, 102
RATE = 1_000_000
QUOTAS = f"[clients.default]\nproducer_byte_rate = {RATE}\nconsumer_byte_rate = {RATE}\n"
OVERRIDES = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
SIDECAR, OWN = "sidecar", "broker"
OTHERS = "others"
ROUNDS, ROUND_SECONDS = 4, 4.0


class Case(NamedTuple):
    """A client library, and the brokers that it speaks to."""

    client: QuotaClient
    protocol: str

    @property
    def name(self) -> str:
        return self.client.name


CASES = tuple(
    Case(QuotaClient(kafka, records=200), protocol)  # 12 MB of each codec: the broker's burst is 10 MB
    for kafka, protocol in (("3.9.1", "3.9"), ("4.1.0", "4.1"), ("4.4.0", "4.4"), (None, "4.1"))
)


async def measure(case: Case) -> None:
    """Run one case through the sidecar and around it at the same time, and keep what came of both. Raises LabError."""
    plan = ClusterPlan(
        brokers=BROKERS, release=release(protocol=case.protocol), broker_overrides=OVERRIDES, taps=False,
        sidecars=SidecarPlan(quotas=QUOTAS),
    )  # fmt: skip
    async with cluster(plan) as running:
        own: dict[str | None, float | None] = dict.fromkeys(case.client.client_ids("own-"), float(RATE))
        await trio.to_thread.run_sync(set_client_quotas, running.addresses.direct(BROKER), own)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, running, case, SIDECAR, ingresses(running))
            brokers = {broker: running.addresses.direct(broker) for broker in BROKERS}
            nursery.start_soon(_run, running, case, OWN, brokers)


async def measure_others() -> None:
    """Measure the latency of a client without a quota alone, and beside one that is held at its quota, by turns."""
    plan = ClusterPlan(
        brokers=BROKERS, release=release(protocol="4.1"), taps=False,
        sidecars=SidecarPlan(quotas=f"[clients.greedy]\nproducer_byte_rate = {RATE}\n"),
    )  # fmt: skip
    found: dict[str, list[float]] = {"alone": [], "beside": []}
    async with cluster(plan) as running, topic(running, {0: [BROKER], 1: [BROKER]}) as name:
        ingress = running.addresses.ingress(BROKER)
        greedy = ImpatientProducer(ingress, name, "greedy")
        for turn in range(2 * ROUNDS + 2):
            other = LiveProducer(ingress, name, 1, interval_seconds=0.004, shape=running.shape(LIVE))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.run)
                if turn % 2:
                    await trio.to_thread.run_sync(greedy.produce_for, ROUND_SECONDS)
                else:
                    await trio.sleep(ROUND_SECONDS)
                nursery.cancel_scope.cancel()
            if turn > 1:  # the first two warm up the broker
                found["beside" if turn % 2 else "alone"].append(other.percentile(0.99) * 1000)
        greedy.close()
    _keep({"case": OTHERS, **{way: round(statistics.median(values), 2) for way, values in found.items()}, "all": found})


def _keep(row: dict[str, Any]) -> None:
    keep(RESULTS, row)
    click.echo(json.dumps(row), err=True)


async def _run(running: Cluster, case: Case, way: str, addresses: Mapping[int, str]) -> None:
    prefix = "own-" if way == OWN else "sidecar-"
    async with topic(running, {partition: [BROKER] for partition in range(len(case.client.codecs))}) as name:
        found = await case.client.run(running, name, prefix, addresses)
    _keep({"case": case.name, "brokers": running.plan.release.kafka, "way": way, **figures(found)})


def figures(found: Outcome) -> dict[str, Any]:
    """Return the figures of a row: of producers and consumers those of the worst one, rates over the quota."""
    flows = [*found.producers.values(), *found.members.values()]
    return {
        "produced": _mean(found.producers), "produced_worst_second": _worst(found.producers),
        "consumed_worst_second": _worst(found.members),
        "throttle_ms": max(flow.throttle_ms for flow in flows),
        "request_ms": max(flow.latency_ms for flow in found.producers.values()),
        "disconnects": sum(flow.closed for flow in flows), "retries": sum(len(flow.retries) for flow in flows),
        "rebalances": found.rebalances,
    }  # fmt: skip


def _mean(flows: Mapping[str, Flow]) -> float:
    return round(sum(flow.bytes_per_second for flow in flows.values()) / len(flows) / RATE, 3)


def _worst(flows: Mapping[str, Flow]) -> float:
    return round(max(flow.worst_bytes(1) for flow in flows.values()) / RATE, 3)


COLUMNS = (
    ("produced / Q", "produced", 2), ("worst second / Q", "produced_worst_second", 2),
    ("consumed, worst second / Q", "consumed_worst_second", 2), ("longest throttle time told, ms", "throttle_ms", 0),
    ("longest Produce, ms", "request_ms", 0),
)  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return Markdown: one row per case, in the order of `CASES`; in each cell the broker's own quota, the sidecar's,
    and at the end its disconnects, retries and rebalances together. A sentence tells what others notice."""
    last = {(row["case"], row.get("way")): row for row in rows}
    titles = [title for title, _, _ in COLUMNS]
    lines = [
        f"| clients, brokers | {' | '.join(titles)} | disconnects, retries, rebalances |",
        "|---" * (2 + len(titles)) + "|",
    ]
    for case in CASES:
        own, ours = last.get((case.name, OWN)), last.get((case.name, SIDECAR))
        if own is None or ours is None:
            continue
        cells = [f"{own[key]:.{digits}f}, **{ours[key]:.{digits}f}**" for _, key, digits in COLUMNS]
        disturbed = [sum(row[key] for key in ("disconnects", "retries", "rebalances")) for row in (own, ours)]
        cells.append(f"{disturbed[0]}, **{disturbed[1]}**")
        lines.append(f"| {case.name}, {ours['brokers']} | {' | '.join(cells)} |")
    others = last.get((OTHERS, None))
    if others is not None:
        alone, beside = others["alone"], others["beside"]
        held = f"{beside} ms beside one that is held at its quota"
        lines += ["", f"A client without a quota, p99 of a Produce: {alone} ms alone, {held}."]
    return "\n".join(lines)


@click.command()
@click.option("--case", "names", type=click.Choice([*(case.name for case in CASES), OTHERS]), multiple=True)
@click.option("--run/--no-run", default=True, help="Measure.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(names: tuple[str, ...], *, run: bool, write: Path | None) -> None:
    """Measure clients under quotas of 1 MB/s each: the broker's own and the sidecar's, at the same time."""
    try:
        for case in CASES if run else ():
            if not names or case.name in names:
                trio.run(measure, case)
        if run and (not names or OTHERS in names):
            trio.run(measure_others)
    except* LabError as errors:
        raise click.ClickException(str(errors.exceptions[0])) from errors
    text = table(kept(RESULTS, "run it without --no-run first"))
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()
