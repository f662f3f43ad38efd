"""A node on this machine: a real kubelet with containerd, which run real pods, beside a `control_plane`.

It has mounts, processes and a network of its own, so that kubelet and containerd find in /var/lib, /run and the like
what is theirs alone, and everything ends when the first of its processes is killed. No scheduler and no names come
with it: a pod names its node. Needs root, runc and iproute2. Knows no Kafka.

Invariant: when the block ends, no process, mount, network or control group of the node is left.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..brokers.jars import required_command
from ..errors import LabError
from ..host.processes import Process, kill_all, wait_until
from .control_groups import ControlGroup
from .control_plane import ControlPlane, control_plane
from .network import node_network
from .node_files import NodePlan, write_files
from .programs import NODE, built

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_SECONDS = 120.0
_IMPORT_SECONDS = 300.0
_NEEDED = {"runc": "runc", "catatonit": "catatonit", "unshare": "util-linux"}


class Node:
    """A kubelet with containerd while they run."""

    def __init__(self, plan: NodePlan, servers: ControlPlane) -> None:
        self.name = plan.name
        self._plan, self._servers = plan, servers
        home = plan.home
        namespaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        first = ["catatonit", "-g", "--", "bash", str(home / "init.sh")]
        self.process = Process(
            f"node {plan.name}", [*plan.network.within(), *namespaces, "--", *first], output=home / "node.log"
        )

    async def start(self) -> None:
        """Start the node and wait until the API server calls it ready.

        Raises LabError with the last lines of what would not start.
        """
        self.process.start()
        try:
            await wait_until(self._is_ready, process=self.process, what="it was ready", timeout_seconds=_READY_SECONDS)
        except LabError as error:
            for log in ("kubelet.log", "containerd.log"):
                error.add_note(f"{log}:\n{_tail(self._plan.home / log)}")
            raise

    def close(self) -> None:
        kill_all([self.process])

    def import_image(self, archive: Path) -> None:
        """Let pods have the images of an archive (docker save). Blocking. Raises LabError."""
        socket = self._plan.home / "run" / "containerd" / "containerd.sock"
        command = [
            str(self._plan.programs / "ctr"), f"--address={socket}", "--namespace=k8s.io", "images", "import",
            # Unpacking needs the node's own mounts.
            "--local=false", str(archive),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_IMPORT_SECONDS)
        if done.returncode:
            raise LabError(f"{archive.name} could not be imported: {done.stderr.strip()}")

    def _is_ready(self) -> bool:
        asked = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self._servers.try_kubectl("get", "node", self.name, asked, "--request-timeout=2s").out == "True"


@contextmanager
def cluster_with_node() -> Iterator[tuple[ControlPlane, Node]]:
    """Run a control plane and one node that is ready, for as long as the block lasts. Not within a Trio run.

    Raises LabError.
    """
    for command, package in _NEEDED.items():
        required_command(command, f"it to run pods (Debian: apt-get install {package})")
    programs = built(NODE)
    with ExitStack() as stack:
        network = stack.enter_context(node_network())
        servers = stack.enter_context(control_plane(network.ours))
        home = Path(tempfile.mkdtemp(prefix="node-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        group = ControlGroup(network.name)
        stack.callback(group.remove)
        group.make()
        plan = NodePlan("node", home, programs, servers.kubeconfig, network, group.path)
        write_files(plan)
        node = Node(plan, servers)
        stack.callback(node.close)
        trio.run(node.start)
        yield servers, node


def _tail(path: Path, count: int = 25) -> str:
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-count:]) if path.exists() else "(never written)"
