"""etcd, kube-apiserver and kube-controller-manager on a loopback address of their own, and kubectl that reaches them.

What a control plane is asked to store it checks as in any cluster: schemas, server-side apply, roles, admission. Its
controllers make ControllerRevisions and pods of a StatefulSet and delete what a deleted namespace held. No scheduler,
no kubelet. Everything ends with the process that started it. Knows nothing of Kafka.
"""

from __future__ import annotations

import json
import random
import secrets
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from ..brokers.jars import required_command
from ..errors import LabError
from ..host.processes import Process, accepts_connections, kill_all, wait_until
from .clients import helm_command, kubectl_command
from .programs import CONTROL_PLANE, built

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ETCD_PORT, _PEER_PORT, _API_PORT = 2379, 2380, 6443
_START_SECONDS = 60.0
_COMMAND_SECONDS = 60.0
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Said:
    """The output and exit status of a command."""

    status: int
    out: str
    error: str


class ControlPlane:
    """The servers, and clients that reach them as their administrator.

    Args:
        home: an empty folder of its own.
        served_at: address of this machine at which nodes reach the API server; a loopback address if None.
    """

    def __init__(self, home: Path, served_at: str | None = None) -> None:
        self._home = home
        self.address = _free_address()
        self._served_at = served_at or self.address
        programs = built(CONTROL_PLANE)
        self._token = secrets.token_hex(16)
        self._etcd = Process("etcd", [str(programs / "etcd"), *self._etcd_options()], output=home / "etcd.log")
        self._api = Process(
            "kube-apiserver", [str(programs / "kube-apiserver"), *self._api_options()], output=home / "api.log"
        )
        self._controllers = Process(
            "kube-controller-manager",
            [str(programs / "kube-controller-manager"), *self._controller_options()],
            output=home / "controllers.log",
        )
        self.helms = {"helm 4": helm_command(), "helm 3": str(programs / "helm")}

    @property
    def kubeconfig(self) -> Path:
        return self._home / "kubeconfig"

    @property
    def url(self) -> str:
        return f"https://{self._served_at}:{_API_PORT}"

    @property
    def certificate_authority(self) -> Path:
        """Signs the API server's own certificate."""
        return self._home / "certificates" / "apiserver.crt"

    async def start(self) -> None:
        """Start the servers. Raises LabError with the last lines of the one that would not start."""
        _make_key(self._home / "service-account.key")
        (self._home / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')
        self._etcd.start()
        await wait_until(
            lambda: accepts_connections(self.address, _ETCD_PORT),
            process=self._etcd, what="it listened", timeout_seconds=_START_SECONDS,
        )  # fmt: skip
        self._api.start()
        await wait_until(
            self.certificate_authority.exists,
            process=self._api, what="it had made its certificate", timeout_seconds=_START_SECONDS,
        )  # fmt: skip
        self._write_kubeconfig()
        await wait_until(self._is_ready, process=self._api, what="/readyz", timeout_seconds=_START_SECONDS)
        self._controllers.start()

    def close(self) -> None:
        kill_all([self._controllers, self._api, self._etcd])

    def kubectl(self, *arguments: str, said: str = "") -> str:
        """Run kubectl; `said` is its standard input. Blocking. Raises LabError with what it told."""
        answer = self.try_kubectl(*arguments, said=said)
        if answer.status:
            raise LabError(f"kubectl {' '.join(arguments)}: exit {answer.status}: {answer.error.strip()}")
        return answer.out

    def try_kubectl(self, *arguments: str, said: str = "") -> Said:
        """Run kubectl and return its answer, even if that is a refusal."""
        return run([kubectl_command(), f"--kubeconfig={self.kubeconfig}", *arguments], said)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return an object, or a list of some. Raises LabError."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "-o", "json", *arguments))
        return found

    def helm(self, version: str, *arguments: str) -> str:
        """Run a helm of `helms`. Blocking. Raises LabError."""
        answer = run([self.helms[version], f"--kubeconfig={self.kubeconfig}", *arguments])
        if answer.status:
            raise LabError(f"{version}: {' '.join(arguments)}: exit {answer.status}: {answer.error.strip()}")
        return answer.out

    def _is_ready(self) -> bool:
        return self.try_kubectl("get", "--raw", "/readyz", "--request-timeout=2s").out == "ok"

    def _write_kubeconfig(self) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {"server": self.url, "certificate-authority": str(self.certificate_authority)},
                }
            ],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
            "current-context": "lab",
        }
        self.kubeconfig.write_text(json.dumps(document))
        self.kubeconfig.chmod(0o600)

    def _etcd_options(self) -> list[str]:
        client, peer = (f"http://{self.address}:{port}" for port in (_ETCD_PORT, _PEER_PORT))
        return [
            f"--data-dir={self._home / 'etcd'}", "--name=lab", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=lab={peer}",
        ]  # fmt: skip

    def _api_options(self) -> list[str]:
        key = self._home / "service-account.key"
        return [
            f"--etcd-servers=http://{self.address}:{_ETCD_PORT}",
            f"--bind-address={self._served_at}", f"--advertise-address={self._served_at}",
            f"--secure-port={_API_PORT}",
            # A node's name leads nowhere.
            "--kubelet-preferred-address-types=InternalIP",
            # Loopback addresses are no Endpoints.
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            f"--cert-dir={self._home / 'certificates'}", f"--token-auth-file={self._home / 'tokens.csv'}",
            "--service-account-issuer=https://localhost",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--authorization-mode=RBAC", "--allow-privileged",
        ]  # fmt: skip

    def _controller_options(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}", f"--bind-address={self.address}", "--leader-elect=false",
            f"--cert-dir={self._home / 'controllers'}", "--use-service-account-credentials=false",
            f"--service-account-private-key-file={self._home / 'service-account.key'}",
            f"--root-ca-file={self.certificate_authority}",
        ]  # fmt: skip


@contextmanager
def control_plane(served_at: str | None = None) -> Iterator[ControlPlane]:
    """Run a control plane in a temporary folder, for as long as the block lasts.

    Not within a Trio run. Raises LabError.
    """
    with tempfile.TemporaryDirectory(prefix="control-plane-") as home:
        found = ControlPlane(Path(home), served_at)
        try:
            trio.run(found.start)
            yield found
        finally:
            found.close()


def run(command: Sequence[str], said: str = "") -> Said:
    """Run a command. Raises LabError if it takes more than a minute."""
    try:
        done = subprocess.run(
            command, input=said, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(command)}: took longer than {_COMMAND_SECONDS:g} s") from error
    return Said(done.returncode, done.stdout, done.stderr)


def _free_address() -> str:
    dice = random.Random()
    for _ in range(_ATTEMPTS):
        address = f"127.{dice.randint(16, 250)}.{dice.randint(1, 250)}.{dice.randint(1, 250)}"
        try:
            for port in (_ETCD_PORT, _PEER_PORT, _API_PORT):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((address, port))
        except OSError:
            continue
        return address
    raise LabError("no loopback address found on which nothing listens yet")


def _make_key(path: Path) -> None:
    openssl = required_command("openssl", "openssl (Debian: apt-get install openssl)")
    command = [openssl, "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(path)]
    answer = run(command)
    if answer.status:
        raise LabError(f"openssl: {answer.error.strip()}")
