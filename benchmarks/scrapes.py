"""The cost of a scrape to the relay: the longest stretch for which the loop does nothing else, in slices and at one go.

    python -m benchmarks.scrapes [--replicas 200000] [--connections 200] [--rounds 9] [--write docs/benchmarks.md]

The sidecar's own pages over a real socket, about replicas of which half are behind; no traffic is relayed beside them.
An instrument of Trio's watches the loop from one wait for the kernel to the next, by the CPU time of its thread, so
what other processes take does not count. "At one go" is the same work without a pause in it. Both are measured in
turns, in one run. The garbage collector is off: a relay that runs for long has its collections anyway, whoever asks for
pages.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import trio

from protocol.fetch.walker import RequestEntry
from protocol.work_in_steps import run_through
from proxy.config.settings import Address, load_settings
from proxy.http.loop_share import LoopShare
from proxy.http.server import HttpServer
from proxy.logs.log import open_log
from proxy.logs.log_settings import LogFormat, LogLevel, LogSettings
from proxy.observing.exposition import Exposition
from proxy.observing.metric_row import Sources
from proxy.observing.quota_checks import ReplicaStatsTask
from proxy.observing.site import Site
from proxy.observing.status_page import StatusPage
from proxy.quota_files.reload import QuotaWatch
from proxy.roles import Role
from proxy.statistics.counters import Statistics
from proxy.throttle.link import Link
from proxy.throttle.role_throttle import RoleThrottle

from .document_part import DocumentPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.config.settings import Settings
    from proxy.logs.log import Log

PAGES = ("/healthz", "/metrics", "/throttle", "/config")
TOPICS = 50
"""The number of topics of a connection's partitions."""
PART = DocumentPart("scrapes")
PROXY = '[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "127.0.0.1:1"\n'
QUOTAS = (
    '[brokers.default]\nleader.replication.throttled.rate = "50MiB/s"\nleader.replication.throttled.replicas = "*"\n'
)


class Scrape(NamedTuple):
    stretch_seconds: float
    """The longest of CPU between two waits of the loop."""
    answer_seconds: float


class Watched(trio.abc.Instrument):
    """The longest stretch since it was made."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._since = time.thread_time()

    def after_io_wait(self, _: float) -> None:
        self._since = time.thread_time()

    def before_io_wait(self, _: float) -> None:
        self.longest_seconds = max(self.longest_seconds, time.thread_time() - self._since)


def fill(throttle: RoleThrottle, *, replicas: int, connections: int, now: float) -> None:
    """Give a role connections with so many replicas in all, every second one behind."""
    for number in range(connections):
        link = Link(throttle, str(number))
        link.replicas.fetch_version = 11
        entries = [
            RequestEntry(f"topic-{partition % TOPICS}", partition // TOPICS, 0, 1000, 1 << 20, 0, 0)
            for partition in range(replicas // connections)
        ]
        run_through(link.replicas.asked(entries, now))
        for partition, replica in enumerate(link.replicas.known.values()):
            replica.answered(high_watermark=1000 + partition % 2 * partition, log_start_offset=0)
            replica.add(1000, now)
            link.replicas.changed[replica] = None
        run_through(link.replicas.asked_more((), (), now))


def site(
    settings: Settings, watch: QuotaWatch, throttles: Mapping[Role, RoleThrottle], counted: Statistics, turn: LoopShare
) -> Site:
    """Return the pages about these throttles."""
    replica_stats_task = ReplicaStatsTask(throttles, turn, pause_seconds=lambda _: 0.0)
    page = StatusPage(settings, watch, throttles, replica_stats=lambda role, _: replica_stats_task.last(role))
    sources = Sources(
        statistics=counted,
        reloads=watch.statistics,
        overrides=lambda: (),
        quotas=lambda: watch.current,
        rate_bytes_per_second=lambda _: 0.0,
        replica_stats=replica_stats_task.last,
        version=str,
        task_restarts={},
    )
    return Site(
        settings.http,
        watch,
        page,
        partial(Exposition, sources),
        replica_stats_task=replica_stats_task,
        turn=turn,
        is_draining=lambda: False,
    )


async def get(address: Address, page: str) -> None:
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(f"GET {page} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        first = await stream.receive_some()
        if not first.startswith(b"HTTP/1.1 200 "):
            raise click.ClickException(f"{page}: {first[:80]!r}")
        async for _ in stream:
            pass


async def scrape(address: Address, page: str) -> Scrape:
    watched = Watched()
    trio.lowlevel.add_instrument(watched)
    began = time.perf_counter()
    await get(address, page)
    took = time.perf_counter() - began
    trio.lowlevel.remove_instrument(watched)
    return Scrape(watched.longest_seconds, took)


async def measure(
    settings: Settings, watch: QuotaWatch, log: Log, *, replicas: int, connections: int, rounds: int
) -> dict[tuple[str, str], list[Scrape]]:
    """Return scrapes by page and way."""
    counted, now = Statistics(), trio.current_time()
    throttles = {
        role: RoleThrottle(role, settings.quotas, quotas=watch.current, statistics=counted.of(role), now=now)
        for role in Role
    }
    throttle = throttles[Role.LEADER]
    fill(throttle, replicas=replicas, connections=connections, now=now)
    clocks: dict[str, Callable[[], float]] = {"in slices": time.perf_counter, "at one go": lambda: 0.0}
    found: dict[tuple[str, str], list[Scrape]] = {(page, way): [] for page in PAGES for way in clocks}
    servers = {way: HttpServer.bind(Address("127.0.0.1", 0), log=log) for way in clocks}
    async with trio.open_nursery() as nursery:
        for way, clock in clocks.items():
            for run in site(settings, watch, throttles, counted, LoopShare(clock)).tasks(servers[way]).values():
                nursery.start_soon(run)
        for page in PAGES * rounds:
            for link in throttle.links:  # what nobody has asked for in 30 s is not looked at
                run_through(link.replicas.asked_more((), (), trio.current_time()))
            for way, server in servers.items():
                found[page, way].append(await scrape(server.address, page))
        nursery.cancel_scope.cancel()
    for server in servers.values():
        server.close()
    return found


def table(found: dict[tuple[str, str], list[Scrape]]) -> str:
    lines = [
        "| page | way | longest stretch, median | the longest of all | answered after, median |",
        "|---|---|---|---|---|",
    ]
    for (page, way), scrapes in found.items():
        stretches = [each.stretch_seconds for each in scrapes]
        cells = [
            statistics.median(stretches),
            max(stretches),
            statistics.median(each.answer_seconds for each in scrapes),
        ]
        lines.append(f"| `{page}` | {way} | " + " | ".join(f"{1000 * cell:.1f} ms" for cell in cells) + " |")
    return "\n".join(lines)


@click.command()
@click.option(
    "--replicas", default=200_000, show_default=True, type=click.IntRange(1), help="Throttled replicas in all."
)
@click.option("--connections", default=200, show_default=True, type=click.IntRange(1), help="Over so many connections.")
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Scrapes of each page, each way.")
@click.option("--collect", is_flag=True, help="With the garbage collector on.")
@click.option("--write", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Put the table there.")
def main(replicas: int, connections: int, rounds: int, write: Path | None, *, collect: bool) -> None:
    """Measure what a scrape costs the relay."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "proxy.toml").write_text(PROXY, "utf-8")
        (Path(folder) / "quotas.toml").write_text(QUOTAS, "utf-8")
        settings = load_settings(Path(folder) / "proxy.toml")
        with (Path(folder) / "log").open("w") as stream:
            log = open_log(LogSettings(LogFormat.JSON, LogLevel.INFO), stream)
            watch = QuotaWatch.open(settings.quotas.file, broker_id=101, log=log)
            work = partial(measure, settings, watch, log, replicas=replicas, connections=connections, rounds=rounds)
            if not collect:
                gc.disable()
            try:
                found = trio.run(work)
            finally:
                gc.enable()
    text = f"{replicas} replicas on {connections} connections, {rounds} scrapes each:\n\n{table(found)}"
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()
