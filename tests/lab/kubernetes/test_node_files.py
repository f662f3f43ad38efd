"""What a node's programs read says where everything is, and nothing of the machine's own is in it."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

from lab.kubernetes.network import BRIDGE
from lab.kubernetes.node_files import SANDBOX_IMAGE, SHIELDED, NodePlan, write_files

if TYPE_CHECKING:
    from pathlib import Path


class Network:
    node, subnet, pods = "198.18.7.2", "198.18.7.0/24", ("198.18.7.10", "198.18.7.250")


@pytest.fixture
def plan(tmp_path: Path) -> NodePlan:
    home = tmp_path / "home"
    home.mkdir()
    made = NodePlan("node", home, tmp_path / "programs", tmp_path / "kubeconfig", Network(), "/kn1")
    write_files(made)
    return made


def test_containerd_finds_plugins_and_the_image_that_holds_pods_together(plan: NodePlan) -> None:
    plugins = tomllib.loads((plan.home / "containerd.toml").read_text())["plugins"]
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"] == {"sandbox": SANDBOX_IMAGE}
    network = plugins["io.containerd.cri.v1.runtime"]["cni"]
    assert (network["bin_dirs"], network["conf_dir"]) == ([str(plan.programs)], str(plan.home / "cni"))


def test_pods_have_addresses_of_the_nodes_bridge(plan: NodePlan) -> None:
    (plugin,) = json.loads((plan.home / "cni" / "10-pods.conflist").read_text())["plugins"]
    assert plugin["bridge"] == BRIDGE
    assert plugin["ipam"]["ranges"] == [
        [{"subnet": "198.18.7.0/24", "rangeStart": "198.18.7.10", "rangeEnd": "198.18.7.250"}]
    ]


def test_pods_are_below_the_nodes_control_group(plan: NodePlan) -> None:
    assert json.loads((plan.home / "kubelet.json").read_text())["cgroupRoot"] == "/kn1"


def test_the_machines_settings_are_shielded_before_the_kubelet_starts(plan: NodePlan) -> None:
    script = (plan.home / "init.sh").read_text()
    shield, start = script.index(" ".join(SHIELDED)), script.index("\nkubelet ")
    assert shield < start
