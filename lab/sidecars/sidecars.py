"""The cluster's sidecars: their files, their processes, and what they say over HTTP.

The sidecar is met as a user meets it, by command line, files and HTTP, never by import.
Invariant: quotas.toml is replaced by one rename, so a sidecar never reads half a file.
"""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from ..errors import LabError
from ..host.addresses import HTTP_PORT, KAFKA_PORT, Addresses
from ..host.processes import Process, wait_until
from .exposition import parse_exposition
from .sidecar_config import SidecarConfig

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from ..brokers.security import Secured

_START_SECONDS = 90.0
"""The time that a sidecar may take to start: as long as brokers have, which start at the same time."""
_HTTP_SECONDS = 20.0
_EFFECT_SECONDS = 5.0
_POLL_SECONDS = 0.02
_TAKEN_OVER = '"taken_over"'

UNLIMITED = "# no quotas: everything passes\n"
"""A quotas file that limits nothing (an empty one is refused as torn)."""


@dataclass(frozen=True, slots=True)
class SidecarPlan:
    """The brokers that get a sidecar, for which role, and with which settings.

    Args:
        policy: `strict` or `kip73`.
        leader: brokers whose sidecar is their ingress; None means all.
        follower: brokers whose sidecar is their egress; None means all.
        quotas: first content of quotas.toml.
        settings: further lines of proxy.toml's tables, such as `{"log": 'level = "debug"'}`.
        program: of a broker's sidecar and its folder, the command that `run` and its options are added to; None: the
            console script beside this interpreter.
        transparent: the egress takes what is redirected to it; only where each broker has a room of its own.
    """

    policy: str = "strict"
    leader: frozenset[int] | None = None
    follower: frozenset[int] | None = None
    quotas: str = UNLIMITED
    settings: Mapping[str, str] | None = None
    program: Callable[[int, Path], Sequence[str]] | None = None
    transparent: bool = False

    def has_ingress(self, broker: int) -> bool:
        return self.leader is None or broker in self.leader

    def has_egress(self, broker: int) -> bool:
        return self.follower is None or broker in self.follower

    def beside(self, brokers: Sequence[int]) -> list[int]:
        """Return the brokers that have a sidecar at all."""
        return [broker for broker in brokers if self.has_ingress(broker) or self.has_egress(broker)]


class Sidecar:
    """One sidecar process.

    Args:
        broker: beside which it stands.
        plan: the cluster's.
        addresses: the cluster's.
        upstreams: per leader, where the egress goes on to; of the broker itself, where the ingress does.
        home: a folder of its own.
        within: what its command is run by.
        secured: how brokers speak to each other, and by which keys; None: in plaintext.
        port: of everybody.
    """

    def __init__(
        self,
        broker: int,
        plan: SidecarPlan,
        addresses: Addresses,
        *,
        upstreams: Mapping[int, str],
        home: Path,
        within: Sequence[str] = (),
        secured: Secured | None = None,
        port: int = KAFKA_PORT,
    ) -> None:
        self.broker = broker
        self.url = f"http://{addresses.http(broker)}:{HTTP_PORT}"
        ends = {"ingress": plan.has_ingress(broker), "egress": plan.has_egress(broker)}
        roles = [role for role, has in ends.items() if has]
        self._written = SidecarConfig(
            broker, roles, addresses, upstreams, port, secured, plan.transparent, plan.settings
        )
        home.mkdir(parents=True)
        self._config = home / "proxy.toml"
        self._quotas = home / "quotas.toml"
        self._policy = plan.policy
        self._write_config()
        self._quotas.write_text(plan.quotas, encoding="utf-8")
        program = plan.program(broker, home) if plan.program else [throttle_sidecar_script()]
        self._within, self._program = list(within), [*program, "run", "--config", str(self._config)]
        self._command = [*self._within, *self._program]
        self.runtime_directory = home / "run"
        """The sidecar's private sockets are below it, in a folder named by the broker's id. Writable for the sidecar's
        own user, which it has in a room."""
        self.runtime_directory.mkdir()
        self.runtime_directory.chmod(0o777)
        self.control_url = f"unix:{self.runtime_directory / str(broker)}"
        """The URL at which commands reach it without a token."""
        self.process = self._new_process(home / "sidecar.log")
        self.left_behind: list[Process] = []
        """The processes that have handed over and that still encrypt for the process that took over."""

    @property
    def policy(self) -> str:
        return self._policy

    @property
    def quotas_file(self) -> Path:
        return self._quotas

    def run_by(self, *command: str) -> None:
        """Run its program by this command from the next start on, such as `env` and its arguments; none: by itself.

        Raises LabError: it is running.
        """
        if self.process.running:
            raise LabError(f"{self.process.name} is running; what runs it is chosen before it starts")
        self._command = [*self._within, *command, *self._program]
        self.process = self._new_process(self.process.output)

    def _new_process(self, output: Path, *options: str) -> Process:
        environment = {"RUNTIME_DIRECTORY": str(self.runtime_directory)}
        return Process(f"sidecar {self.broker}", [*self._command, *options], output=output, environment=environment)

    def begin_start(self) -> None:
        self.process.start()

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises LabError with its last lines."""
        self.begin_start()
        await self.wait_started()

    async def wait_started(self) -> None:
        await wait_until(self.ready, process=self.process, what="/readyz said 200", timeout_seconds=_START_SECONDS)

    async def stop(self) -> None:
        """Stop by SIGTERM, which drains. Processes that only encrypt for this one end with its last connection."""
        await self.process.terminate(grace_seconds=15.0)
        for process in self.left_behind:
            await process.terminate(grace_seconds=15.0)

    async def hand_over(self) -> None:
        """Start another process that takes over, and wait until it has. Raises LabError."""
        before, taken = self.process, len(self.log_lines(_TAKEN_OVER))
        self.process = self._new_process(before.output, "--take-over")
        self.left_behind.append(before)
        self.process.start()
        await wait_until(
            lambda: len(self.log_lines(_TAKEN_OVER)) > taken,
            process=self.process, what="it has taken over", timeout_seconds=_START_SECONDS,
        )  # fmt: skip
        self.left_behind = [each for each in self.left_behind if each.running]

    async def kill(self) -> None:
        """Kill by SIGKILL, those that encrypt for it as well."""
        for process in (self.process, *self.left_behind):
            await process.kill()

    async def use_policy(self, policy: str) -> None:
        """Restart with another policy; nothing happens if it is the present one."""
        if policy != self._policy:
            self._policy = policy
            self._write_config()
            await self.stop()
            await self.start()

    def write_quotas(self, text: str) -> None:
        """Replace quotas.toml atomically; returns at once."""
        fresh = self._quotas.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self._quotas)

    async def set_quotas(self, text: str) -> None:
        """Replace quotas.toml, and wait until the sidecar has it in force. The hash tells: one write may wake the
        sidecar twice.

        Raises:
            LabError: it refused the file, or did not notice it within five seconds.
        """
        wanted = hashlib.sha256(text.encode()).hexdigest()
        refused = await trio.to_thread.run_sync(self._refused_reloads)
        self.write_quotas(text)
        deadline = trio.current_time() + _EFFECT_SECONDS
        while True:
            state = (await trio.to_thread.run_sync(self.throttle))["quotas"]
            if wanted.startswith(state["hash"]):
                return
            if await trio.to_thread.run_sync(self._refused_reloads) > refused:
                raise LabError(f"sidecar {self.broker} refused the quotas: {state['last_error']}")
            if trio.current_time() > deadline:
                raise LabError(f"sidecar {self.broker} did not take the quotas:\n{self.process.last_lines()}")
            await trio.sleep(_POLL_SECONDS)

    def ready(self) -> bool:
        try:
            self._get("/readyz")
        except (LabError, OSError):
            return False
        return True

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return values by metric name, then by label part (`role="leader"`, or empty)."""
        return parse_exposition(self._get("/metrics").decode())

    def throttle(self) -> dict[str, Any]:
        """Return the state that `throttle-sidecar status` shows."""
        answer: dict[str, Any] = json.loads(self._get("/throttle"))
        return answer

    def reload(self) -> dict[str, Any]:
        """POST /-/reload, with what it says: a refused file is an answer too. Raises LabError."""
        request = urllib.request.Request(self.url + "/-/reload", method="POST")  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as answer:  # noqa: S310
                said: dict[str, Any] = json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = json.loads(refusal.read())
        except urllib.error.URLError as error:
            raise LabError(f"sidecar {self.broker}: POST /-/reload: {error}") from error
        return said

    def log_lines(self, containing: str = "") -> list[str]:
        lines = self.process.output.read_text("utf-8", "replace").splitlines()
        return [line for line in lines if containing in line]

    def _refused_reloads(self) -> float:
        return self.metrics()["replication_throttle_config_reloads_total"]['outcome="failed"']

    def _get(self, path: str) -> bytes:
        try:
            # The URL is our own.
            with urllib.request.urlopen(self.url + path, timeout=_HTTP_SECONDS) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.URLError as error:
            raise LabError(f"sidecar {self.broker}: GET {path}: {error}") from error

    def _write_config(self) -> None:
        text = self._written.toml(quotas_file=self._quotas.name, policy=self._policy)
        self._config.write_text(text, encoding="utf-8")


@asynccontextmanager
async def restarted_by(sidecar: Sidecar, *command: str) -> AsyncGenerator[None]:
    """Run by this command for the length of a block, see `Sidecar.run_by`; by itself afterwards, whatever happens:
    others share the cluster."""
    await sidecar.kill()
    sidecar.run_by(*command)
    try:
        await sidecar.start()
        yield
    finally:
        with trio.move_on_after(_START_SECONDS, shield=True):
            await sidecar.kill()
            sidecar.run_by()
            await sidecar.start()


def quotas_toml(rates: Mapping[str, float], topic: str, partitions: Iterable[int], brokers: Iterable[int]) -> str:
    """Return a quotas file that throttles these partitions of one topic on these brokers.

    Args:
        rates: role (`leader`, `follower`) -> bytes per second.
        topic: its name.
        partitions: of that topic.
        brokers: the ones that throttle.
    """
    replicas = ",".join(f"{partition}:{broker}" for partition in partitions for broker in brokers)
    return lists_toml(rates, {topic: dict.fromkeys(rates, replicas)})


def lists_toml(rates: Mapping[str, float], topics: Mapping[str, Mapping[str, str]]) -> str:
    """Return a quotas file with lists as Kafka's topic configs have them.

    Args:
        rates: role (`leader`, `follower`) -> bytes per second, of every broker that reads the file.
        topics: topic -> role -> `partition:broker,…` or `*`.
    """
    text = "[brokers.default]\n"
    text += "".join(f"{role}.replication.throttled.rate = {int(rate)}\n" for role, rate in rates.items())
    for topic, lists in topics.items():
        text += f'[topics."{topic}"]\n'
        text += "".join(f'{role}.replication.throttled.replicas = "{list_}"\n' for role, list_ in lists.items())
    return text


def throttle_sidecar_script() -> str:
    """Return the console script that was installed beside this interpreter."""
    script = Path(sys.executable).with_name("throttle-sidecar")
    if not script.exists():
        raise LabError(f"{script} is missing: install the project into this environment (uv sync)")
    return str(script)
