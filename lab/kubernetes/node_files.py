"""The files that a node's programs read: configuration of kubelet, containerd and the pods' network, and a
script.

Pure but for `write_files`. Knows no Kafka.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .network import BRIDGE

if TYPE_CHECKING:
    from pathlib import Path

    from .network import NodeNetwork

SANDBOX_IMAGE = "localhost/lab-sandbox:1"
SHIELDED = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
            "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")  # fmt: skip
"""The settings of the whole machine that a kubelet would change, and must not on this machine."""

_CONTAINERD = """version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{sandbox}'
[plugins.'io.containerd.cri.v1.runtime']
  # Lowering it wants CAP_SYS_RESOURCE, which root in a container seldom has.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{runc}'
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{programs}']
    conf_dir = '{home}/cni'
    use_internal_loopback = true
"""
_INIT = """set -e
export PATH={programs}:$PATH
for each in lib log; do mount --bind {home}/$each /var/$each; done
mount --bind {home}/run /run
for each in {shielded}; do
  [ -e /proc/sys/$each ] || continue
  mkdir -p "{home}/settings/$(dirname $each)"
  cat /proc/sys/$each > {home}/settings/$each
  mount --bind {home}/settings/$each /proc/sys/$each
done
containerd --config {home}/containerd.toml > {home}/containerd.log 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
kubelet --config={home}/kubelet.json --kubeconfig={kubeconfig} --hostname-override={name} --node-ip={address} \\
  > {home}/kubelet.log 2>&1 &
# Neither goes on without the other.
wait -n
"""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The name of a node, and where it keeps everything.

    Args:
        name: of the node, in the cluster.
        home: an empty folder of its own; below it is what the node's programs find in /var/lib, /var/log and /run.
        programs: folder of `lab.kubernetes.programs.NODE`.
        kubeconfig: by which its programs reach the API server.
        network: where it and its pods are.
        control_group: path of the one that its pods' are below.
    """

    name: str
    home: Path
    programs: Path
    kubeconfig: Path
    network: NodeNetwork
    control_group: str


def write_files(plan: NodePlan) -> None:
    """Write all files that the node's programs read."""
    home, network = plan.home, plan.network
    for folder in ("lib", "log", "run", "cni", "settings"):
        (home / folder).mkdir()
    containerd = _CONTAINERD.format(sandbox=SANDBOX_IMAGE, runc=shutil.which("runc"), programs=plan.programs, home=home)
    (home / "containerd.toml").write_text(containerd)
    (home / "kubelet.json").write_text(json.dumps(_kubelet(plan)))
    (home / "cni" / "10-pods.conflist").write_text(json.dumps(_pods_network(network)))
    (home / "resolv.conf").touch()
    init = _INIT.format(
        programs=plan.programs, home=home, shielded=" ".join(SHIELDED), kubeconfig=plan.kubeconfig,
        name=plan.name, address=network.node,
    )  # fmt: skip
    (home / "init.sh").write_text(init)


def _kubelet(plan: NodePlan) -> dict[str, Any]:
    """Return a kubelet's defaults, but for this machine's lack of space, privileges and control groups of version 2."""
    unlimited = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.network.node,
        # Only what is in its own namespace reaches it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": str(plan.home / "resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": plan.control_group,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "evictionHard": dict.fromkeys(unlimited, "0%"),
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def _pods_network(network: NodeNetwork) -> dict[str, Any]:
    first, last = network.pods
    addresses = {"type": "host-local", "ranges": [[{"subnet": network.subnet, "rangeStart": first, "rangeEnd": last}]]}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "bridge", "bridge": BRIDGE, "ipam": addresses}],
    }
