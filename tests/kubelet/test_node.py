"""A node leaves nothing of itself, however it ends, and the machine's own settings are never its business."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from lab.kubernetes.node_files import SHIELDED

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
PROGRAM = """
import time
from lab.kubernetes.node import cluster_with_node
with cluster_with_node() as (_, node):
    print(node.network.name, flush=True)
    time.sleep(600)
"""


def settings() -> list[str]:
    paths = [Path("/proc/sys", name) for name in SHIELDED]
    return [path.read_text() for path in paths if path.exists()]


def left(name: str) -> list[str]:
    """What still bears a node's name: links, network namespaces, control groups."""
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout
    namespaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{name}")]
    return [*re.findall(rf"\b{name}\w*", links + namespaces), *groups]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program with a cluster of its own, beside whatever runs, and the name of its node's network."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    with program:
        try:
            assert program.stdout is not None
            name = program.stdout.readline().strip()
            assert name
            yield program, name
        finally:
            program.kill()


def ended(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)[1]


def test_interrupted_it_leaves_nothing(started: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    program, name = started
    before = settings()
    processes = psutil.Process(program.pid).children(recursive=True)
    assert {"kubelet", "containerd", "etcd", "kube-apiserver"} <= {process.name() for process in processes}
    program.send_signal(signal.SIGINT)
    assert ended([psutil.Process(program.pid), *processes])
    assert left(name) == []
    assert list(tmp_path.iterdir()) == []
    assert settings() == before


def test_killed_it_leaves_no_process(started: tuple[subprocess.Popen[str], str]) -> None:
    program, name = started
    processes = psutil.Process(program.pid).children(recursive=True)
    program.kill()
    try:
        assert ended(processes)
    finally:
        subprocess.run(["ip", "link", "delete", f"{name}u"], check=False)
        subprocess.run(["ip", "netns", "delete", name], check=False)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while groups := [path for path in Path("/sys/fs/cgroup").glob(f"*/{name}") if path.is_dir()]:
            assert time.monotonic() < deadline, groups
            subprocess.run(
                ["find", *map(str, groups), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], check=False
            )
            time.sleep(0.1)
