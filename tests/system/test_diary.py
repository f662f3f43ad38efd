"""An operator's diary on three real brokers and sidecars, which encrypt between them.

What breaks is named by `status` within half a minute, with exit status 1, and nothing is once it is mended. A Fetch of
a version that is not known, which no broker sends, is in tests/proxy/serving/test_conditions.py.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.authority import Authority
from lab.brokers.releases import release
from lab.brokers.security import Security
from lab.cluster.admin import FOLLOWER_RATE, LEADER_RATE
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT, hosts_file
from lab.sidecars.sidecars import SidecarPlan, lists_toml, throttle_sidecar_script
from operating.asking import ask
from proxy.cluster.kafka_throttle import KAFKA_THROTTLE_SECONDS

from .faults.files import small_disk
from .test_operator_session import undo_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
MIB = 1 << 20
BROKERS = BROKEN, AROUND, OTHER = 101, 102, 103
TOPIC = "diary"
QUOTAS = lists_toml({"leader": 50 * MIB, "follower": 50 * MIB}, {TOPIC: {"leader": "*", "follower": "*"}})
LEADERS = dict(enumerate(BROKERS))
NAMED_SECONDS = 30.0
MENDED_SECONDS = 60.0
"""What is dialled or tried again counts as going on for 20 s, and links are asked for every 15 s."""
UNNOTICED_SECONDS = KAFKA_THROTTLE_SECONDS + 15.0


class Desk:
    """The command line, beside a cluster in which nothing is wrong yet."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.fleet = home / "fleet.toml"
        self.fleet.write_text(
            "".join(
                f'[[sidecars]]\nbroker = {broker}\nurl = "{sidecar.control_url}"\n'
                for broker, sidecar in cluster.sidecars.items()
            )
        )

    @property
    def sidecar(self) -> Sidecar:
        return self.cluster.sidecars[BROKEN]

    async def run(self, *arguments: object) -> tuple[int, str]:
        """Return the exit status and what was printed, on one line."""
        command = [throttle_sidecar_script(), *map(str, arguments)]
        work = partial(
            subprocess.run, command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        done = await trio.to_thread.run_sync(work)
        return done.returncode, " ".join(done.stdout.split())

    async def until(self, is_so: Callable[[int, str], bool], seconds: float) -> float:
        """Wait until `status` is so; return after how many seconds it was."""
        began, seen = trio.current_time(), ""
        while trio.current_time() - began < seconds:
            status, seen = await self.run("status", "--once", "--fleet", self.fleet)
            if is_so(status, seen):
                return trio.current_time() - began
            await trio.sleep(0.5)
        raise AssertionError(f"not within {seconds:g} s; status says: {seen}")

    async def until_named(self, *texts: str) -> float:
        return await self.until(lambda status, seen: status == 1 and all(text in seen for text in texts), NAMED_SECONDS)

    async def until_silent(self, seconds: float = MENDED_SECONDS) -> None:
        await self.until(lambda status, seen: status == 0 and "warning:" not in seen, seconds)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    sidecars = SidecarPlan(quotas=QUOTAS)
    plan = ClusterPlan(
        BROKERS, release=release(protocol="4.1"), sidecars=sidecars, taps=False, security=Security.TLS_BETWEEN
    )
    found = trio.run(start_cluster, plan)
    try:
        found.admin.create_topic(TOPIC, {p: [leader, *(set(BROKERS) - {leader})] for p, leader in LEADERS.items()})
        found.admin.wait_in_sync(TOPIC, timeout_seconds=60)
        yield found
    finally:
        found.close()


@pytest.fixture
async def desk(cluster: Cluster, tmp_path: Path) -> Desk:
    found = Desk(cluster, tmp_path)
    await found.until_silent()
    return found


async def restart(sidecar: Sidecar) -> None:
    await sidecar.kill()
    await sidecar.start()


@asynccontextmanager
async def configured(sidecar: Sidecar, right: str, wrong: str) -> AsyncIterator[None]:
    """Restart it with its first `right` line of proxy.toml replaced, and as it was at the end."""
    file = sidecar.quotas_file.with_name("proxy.toml")
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong, 1))
    try:
        await restart(sidecar)
        yield
    finally:
        file.write_text(text)
        await restart(sidecar)


async def test_a_wrong_upstream(desk: Desk, record: Callable[..., None]) -> None:
    """The port of the broker, mistyped."""
    address = desk.cluster.addresses.direct(BROKEN)
    right, wrong = (f'upstream = "{address}:{port}"' for port in (KAFKA_PORT, 9029))
    async with configured(desk.sidecar, right, wrong):
        seconds = await desk.until_named(f"broker {BROKEN}, leader: {address}:9029 cannot be reached: ")
    record("diary", what="wrong upstream", seconds=round(seconds, 1))
    await desk.until_silent()


async def test_a_wrong_authority(desk: Desk, tmp_path: Path, record: Callable[..., None]) -> None:
    right, strange = (f'ssl.truststore.location = "{each}"' for each in (
        desk.cluster.keys.authority.certificate, Authority(tmp_path / "strange").certificate,
    ))  # fmt: skip
    async with configured(desk.sidecar, right, strange):
        seconds = await desk.until_named(f"broker {BROKEN}: ingress.listen: TLS handshakes with ")
    record("diary", what="wrong authority", seconds=round(seconds, 1))
    await desk.until_silent()


async def test_a_full_disk(desk: Desk, tmp_path: Path, record: Callable[..., None]) -> None:
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        async with configured(desk.sidecar, "[quotas]\n", f'[quotas]\nstate = "{disk / "last-good"}"\n'):
            await desk.until_silent()
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(3 * MIB))
            seconds = await desk.until_named(f"broker {BROKEN}: overrides cannot be stored: disk full: ")
            ballast.unlink()
            await desk.until_silent()
    record("diary", what="full disk", seconds=round(seconds, 1))


async def test_one_bypassed_leader(desk: Desk, record: Callable[..., None]) -> None:
    """One of the two leaders of 102 goes around its egress, and around the ingress of that leader."""
    await lead(desk.cluster, desk.cluster.addresses.direct(BROKEN))
    try:
        seconds = await desk.until_named(
            f"broker {AROUND}, follower: brokers {BROKEN} are fetched from by this broker: it goes around the sidecar"
        )
        await desk.until_named(
            f"broker {BROKEN}, leader: brokers {AROUND} fetch from this broker: they go around the sidecar"
        )
    finally:
        await lead(desk.cluster, desk.cluster.addresses.egress(AROUND, BROKEN))
    record("diary", what="bypassed leader", seconds=round(seconds, 1))
    await desk.until_silent()


async def lead(cluster: Cluster, to_broken: str) -> None:
    """Restart a broker with a file of hosts that leads the name of another to this address."""
    addresses, broker = cluster.addresses, cluster.brokers[AROUND]
    places = {AROUND: addresses.direct(AROUND), BROKEN: to_broken, OTHER: addresses.egress(AROUND, OTHER)}
    hosts_file(cluster.home / f"hosts-of-{AROUND}", [(addresses.name(each), at) for each, at in places.items()])
    await broker.stop()
    await broker.start()
    admin = cluster.admin
    await trio.to_thread.run_sync(partial(admin.wait_in_sync, TOPIC, timeout_seconds=60))
    await trio.to_thread.run_sync(admin.elect_preferred_leaders, TOPIC, LEADERS)


async def test_a_dead_sidecar(desk: Desk, record: Callable[..., None]) -> None:
    await desk.sidecar.kill()
    try:
        seconds = await desk.until_named(f"{BROKEN} ! - ", "no answer", "3 sidecars: 2 answer, 1 does not")
    finally:
        await desk.sidecar.start()
    record("diary", what="dead sidecar", seconds=round(seconds, 1))
    await desk.until_silent()


async def test_a_rate_without_lists(desk: Desk, record: Callable[..., None]) -> None:
    await desk.sidecar.set_quotas(lists_toml({"leader": MIB}, {}))
    try:
        seconds = await desk.until_named(
            f"but no replicas are listed for broker {BROKEN}: throttles nothing: correct quotas.toml or the override"
        )
    finally:
        await desk.sidecar.set_quotas(QUOTAS)
    record("diary", what="rate without lists", seconds=round(seconds, 1))
    await desk.until_silent()


async def test_a_store_cut_in_half(desk: Desk, record: Callable[..., None]) -> None:
    """The override holds on, from the copy."""
    sidecar = desk.sidecar
    store = sidecar.quotas_file.with_name(f"overrides-{BROKEN}.json")
    status, said = await desk.run("set", LEADER_RATE, "8MiB/s", "--for", "1h", "--url", sidecar.control_url)
    assert status == 0, said
    try:
        await sidecar.kill()
        store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])
        await sidecar.start()
        seconds = await desk.until_named(f"broker {BROKEN}: stored overrides could not be read: ")
        assert len(json.loads(ask(sidecar.control_url, "/overrides"))["overrides"]) == 1
        store.with_name(f"{store.name}.damaged").unlink()  # as its words say
        await desk.until_silent()
    finally:
        await trio.to_thread.run_sync(undo_all, sidecar)
    record("diary", what="store cut in half", seconds=round(seconds, 1))


async def test_a_throttle_of_kafkas_own_that_is_the_lower_one(desk: Desk, record: Callable[..., None]) -> None:
    """It is a note: `status` has it, and exit status 0."""
    set_configs = partial(trio.to_thread.run_sync, desk.cluster.admin.set_broker_configs, [BROKEN])
    named = "Kafka's own {} of this broker is {}, lower than the quota of 50.00 MiB/s (52428800 B/s): kafka-configs "
    lower, higher = named.format(LEADER_RATE, "1.00 MiB/s (1048576 B/s)"), f"Kafka's own {FOLLOWER_RATE}"
    await set_configs({LEADER_RATE: str(MIB), FOLLOWER_RATE: str(60 * MIB)})
    try:
        seconds = await desk.until(
            lambda status, seen: status == 0 and f"broker {BROKEN}, leader: {lower}" in seen and higher not in seen,
            UNNOTICED_SECONDS,
        )
    finally:
        await set_configs({LEADER_RATE: None, FOLLOWER_RATE: None})
    record("diary", what="a throttle of Kafka's own", seconds=round(seconds, 1))
    await desk.until_silent(UNNOTICED_SECONDS)
