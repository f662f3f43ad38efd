"""Real overrides of several brokers behind real HTTP servers, in a thread: what commands ask, without processes."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.config.settings import Address, load_settings
from proxy.control.override_keeper import OverrideKeeper
from proxy.control.override_routes import override_routes
from proxy.history.recorder import HistoryRecorder
from proxy.http.authorization import BearerToken, Trust, Writers
from proxy.http.loop_share import LoopShare
from proxy.http.routing import Answer, Request, Route, Routes, json_answer
from proxy.http.server import HttpServer
from proxy.observing.status_page import StatusPage
from proxy.quota_files.override_store import store_path
from proxy.quota_files.reload import QuotaWatch
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOKEN = "t0ken-of-thirty-two-characters-aa"
RATE = "leader.replication.throttled.rate"
SETTINGS = """
[broker]
id = {broker}
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:1"
"""
QUOTAS = f'[brokers.default]\n{RATE} = "50MiB/s"\nleader.replication.throttled.replicas = "*"\n'


class OneSidecar:
    """The overrides of one broker, and where they answer."""

    def __init__(self, folder: Path, broker: int) -> None:
        folder.mkdir(exist_ok=True)
        self.broker, self.log = broker, RecordedLog()
        self.quotas = folder / "quotas.toml"
        self.quotas.write_text(QUOTAS)
        store = store_path(folder / "state", broker)
        self.watch = QuotaWatch.open(self.quotas, broker_id=broker, log=self.log, overrides=store)
        self.history = HistoryRecorder(folder, broker, log=self.log)
        self.keeper = OverrideKeeper(store, self.watch, broker_id=broker, log=self.log, record=self.history.override)
        (folder / "proxy.toml").write_text(SETTINGS.format(broker=broker))
        settings, quotas = load_settings(folder / "proxy.toml"), self.watch.current
        self.throttles = {
            role: RoleThrottle(role, settings.quotas, quotas=quotas, statistics=RoleStatistics(), now=0.0)
            for role in Role
        }
        self.page = StatusPage(settings, self.watch, self.throttles)
        self.server = HttpServer.bind(Address("127.0.0.1", 0), log=self.log)
        self.url = f"http://{self.server.address}"

    @property
    def rate(self) -> float:
        return self.watch.current.leader.bytes_per_second

    @property
    def enforces(self) -> bool:
        return self.watch.current.enforce

    async def run(self, token: Path) -> None:
        admit = Writers(BearerToken.open(token, self.log), frozenset()).required
        changing = override_routes(self.keeper, self.watch, self.broker, admit=admit)
        pages = [Route("GET", "/config", self._config), Route("GET", "/throttle", self._throttle)]
        routes = Routes([*pages, *changing, self.history.route(admit)])
        await self.server.run(routes, trust=Trust([]), turn=LoopShare())

    async def _config(self, _: Request) -> Answer:
        self._apply()
        return json_answer(200, await LoopShare().work_out(self.page.config()))

    async def _throttle(self, _: Request) -> Answer:
        self._apply()
        return json_answer(200, await LoopShare().work_out(self.page.throttle(0.0)))

    def _apply(self) -> None:
        for throttle in self.throttles.values():
            throttle.apply(self.watch.current, 0.0)


@contextmanager
def running(folder: Path, brokers: Sequence[int]) -> Iterator[dict[int, OneSidecar]]:
    """Serve one sidecar's overrides for each broker; `folder`/token is the token of all."""
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    sidecars = {broker: OneSidecar(folder / str(broker), broker) for broker in brokers}
    started, scope = threading.Event(), trio.CancelScope()

    async def serve() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for sidecar in sidecars.values():
                    nursery.start_soon(sidecar.run, token)
                nursery.start_soon(_tell, started)

    async def _tell(event: threading.Event) -> None:
        event.set()
        tokens.append(trio.lowlevel.current_trio_token())
        await trio.sleep_forever()

    tokens: list[trio.lowlevel.TrioToken] = []
    thread = threading.Thread(target=partial(trio.run, serve))
    thread.start()
    started.wait(10)
    try:
        yield sidecars
    finally:
        while not tokens:
            started.wait(0.01)
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(10)
        for sidecar in sidecars.values():
            with closing(sidecar.server):
                pass


def fleet_file(folder: Path, urls: dict[int, str]) -> Path:
    """Write fleet.toml."""
    path = folder / "fleet.toml"
    members = "".join(f'[[sidecars]]\nbroker = {broker}\nurl = "{url}"\n' for broker, url in urls.items())
    path.write_text(f'token_file = "token"\n{members}')
    return path
