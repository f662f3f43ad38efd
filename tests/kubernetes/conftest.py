"""One control plane for all tests, and a namespace called kafka that each finds empty."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lab.kubernetes.control_plane import ControlPlane, control_plane

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="session")
def servers() -> Iterator[ControlPlane]:
    with control_plane() as found:
        yield found


@pytest.fixture
def cluster(servers: ControlPlane) -> Iterator[ControlPlane]:
    """Nothing of an earlier test is left in it."""
    yield servers
    servers.kubectl("delete", "namespace", "kafka", "--ignore-not-found", "--wait=false")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        # Its controller waits for pods, which no kubelet ever ends.
        servers.try_kubectl("delete", "pods", "--all", "--namespace=kafka", "--force", "--grace-period=0")
        if servers.try_kubectl("get", "namespace", "kafka").status:
            return
        time.sleep(0.2)
    pytest.fail("the namespace was not deleted")
