"""The guard's container as the chart renders it: its user, its capabilities and its arguments, in a network namespace.

Needs root, iproute2 and iptables; says so. Without a container runtime: `setpriv` takes away what Kubernetes would.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.host.namespaces import SIDECAR_UID, Rooms, open_rooms
from lab.host.processes import Process, kill_all, wait_until
from lab.sidecars.sidecars import throttle_sidecar_script
from tests.operating.guard.test_namespaces import CLIENT, SERVER

from .test_helm import config_map, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

HERE, THERE = 102, 101


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    with open_rooms((THERE, HERE)) as made:
        yield made


def container(name: str) -> dict[str, Any]:
    (found,) = (each for each in pod("guard")["initContainers"] if each["name"] == name)
    return found


class Scene:
    """A broker, its sidecar and its guard HERE, with the chart's files and arguments; a follower THERE."""

    def __init__(self, rooms: Rooms, folder: Path) -> None:
        self._rooms, self._folder = rooms, folder
        self._started: list[Process] = []
        self._config = folder / "kafka-0.toml"
        text = config_map("guard")["kafka-0.toml"].replace("/etc/throttle-sidecar-quotas", str(folder))
        self._config.write_text(f'{text}[control]\ndirectory = "{folder}/control"\n')
        (folder / "quotas.toml").write_text("# none\n")
        (folder / "control").mkdir(mode=0o700)
        os.chown(folder / "control", SIDECAR_UID, SIDECAR_UID)
        rooms.run(HERE, *container("throttle-route-localnet")["command"])
        here = rooms.addresses.direct(HERE)
        self._start("broker", *rooms.within(HERE), sys.executable, "-c", SERVER, "127.0.0.1", "19092")
        run = (throttle_sidecar_script(), "run", "--config", str(self._config))
        self.sidecar = self._start("sidecar", *rooms.within_as_sidecar(HERE), *run)
        self._start("follower", *rooms.within(THERE), sys.executable, "-c", CLIENT, here)

    def guard(self, capabilities: Sequence[str]) -> Process:
        """A guard as the chart's container runs it, but with these capabilities."""
        of_chart = container("throttle-guard")
        assert of_chart["command"] == ["throttle-sidecar"]
        place = "/etc/throttle-sidecar/$(POD_NAME).toml"
        arguments = [each.replace(place, str(self._config)) for each in of_chart["args"]]
        bounds = ",".join(["-all", *(f"+{each.lower()}" for each in capabilities)])
        user = of_chart["securityContext"]["runAsUser"]
        rights = ("setpriv", f"--reuid={user}", "--clear-groups", f"--bounding-set={bounds}", "--no-new-privs", "--")
        command = (*self._rooms.within(HERE), *rights, throttle_sidecar_script(), *arguments)
        return self._start("guard", *command)

    def text(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        await wait_until(condition, process=self._started[0], what=what, timeout_seconds=20)

    def close(self) -> None:
        kill_all(self._started)

    def _start(self, name: str, *command: str) -> Process:
        process = Process(name, list(command), output=self._folder / f"{name}.log")
        process.start()
        self._started.append(process)
        return process


async def test_with_the_containers_rights_a_guard_leads_around_a_dead_sidecar(rooms: Rooms, tmp_path: Path) -> None:
    with closing(Scene(rooms, tmp_path)) as made:
        await made.until("the sidecar relays", lambda: "127.0.0.1" in made.text("follower"))
        guard = made.guard(container("throttle-guard")["securityContext"]["capabilities"]["add"])
        await made.until("its ways are proved", lambda: "guard_proved" in made.text("guard"))
        await made.sidecar.kill()
        await made.until("it leads around", lambda: "guard_around" in made.text("guard"))
        follower = rooms.addresses.direct(THERE)
        await made.until("the broker sees the follower", lambda: made.text("follower").rstrip().endswith(follower))
        await guard.terminate(grace_seconds=15)
        assert (guard.exit_status, "THROTTLE_GUARD" in rooms.run(HERE, "iptables", "-t", "nat", "-S")) == (0, False)


async def test_a_root_that_may_not_enter_the_sidecars_directory_says_so(rooms: Rooms, tmp_path: Path) -> None:
    """It would take a healthy sidecar for a dead one."""
    with closing(Scene(rooms, tmp_path)) as made:
        await made.until("the sidecar relays", lambda: "127.0.0.1" in made.text("follower"))
        refused = made.guard(["NET_ADMIN"])
        with trio.fail_after(20):
            await refused.wait_exit()
        assert refused.exit_status == 1
        assert "control.sock: expected to be root or the sidecar's own user" in made.text("guard")
