"""What docs/pipeline.md applies for a driver of Spark, as printed: it may make its executors, and reads no secret."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.kubernetes.clients import kubectl_command
from tests.docs.printed import ROOT, runnable

if TYPE_CHECKING:
    from lab.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes

NAMESPACE = "throttle-pipeline"
DRIVER = f"--as=system:serviceaccount:{NAMESPACE}:{NAMESPACE}"


def test_a_driver_may_do_what_it_has_to(servers: ControlPlane) -> None:
    folder = Path(kubectl_command()).parent
    environment = {**os.environ, "KUBECONFIG": str(servers.kubeconfig), "PATH": f"{folder}:{os.environ['PATH']}"}
    lines = runnable("docs/pipeline.md", "On Kubernetes")
    assert [line.split()[0] for line in lines] == ["kubectl", "kubectl"]
    subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=ROOT, env=environment, check=True)
    ask = ("auth", "can-i", f"--namespace={NAMESPACE}", DRIVER)
    assert servers.kubectl(*ask, "create", "pods").strip() == "yes"
    assert servers.try_kubectl(*ask, "get", "secrets").status == 1
    servers.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
