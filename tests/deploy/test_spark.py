"""deploy/spark: what is applied is valid and asks for no more than it needs; its entry point starts what it is told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_kubernetes import validate

ROOT = Path(__file__).parents[2] / "deploy" / "spark"
PROGRAM = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'


def objects() -> list[dict[str, Any]]:
    return [each for name in ("driver.yaml", "pod.yaml") for each in yaml.safe_load_all((ROOT / name).read_text())]


def test_every_object_is_what_its_schema_wants() -> None:
    assert [each["kind"] for each in objects()] == ["ServiceAccount", "Role", "RoleBinding", "Pod"]
    for each in objects():
        validate(each)


def test_a_driver_may_do_nothing_beyond_its_namespace_and_reads_no_secret() -> None:
    (role,) = (each for each in objects() if each["kind"] == "Role")
    asked = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert asked == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    assert "*" not in {verb for rule in role["rules"] for verb in rule["verbs"]}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which `java` and spark-submit say how they were called."""
    for name in ("java", "bin/spark-submit"):
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": str(tmp_path)}


def started(environment: dict[str, str], *arguments: str) -> list[str]:
    done = subprocess.run(
        [ROOT / "entrypoint.sh", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_driver_is_spark_submit_where_it_runs(environment: dict[str, str], tmp_path: Path) -> None:
    found = started(environment | {"SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3"}, "driver", "--class", "a", "b c")
    assert found == [
        f"{tmp_path}/bin/spark-submit", "--deploy-mode", "client",
        "--conf", "spark.driver.bindAddress=10.1.2.3", "--class", "a", "b c",
    ]  # fmt: skip


def test_an_executor_finds_everything_in_its_environment(environment: dict[str, str], tmp_path: Path) -> None:
    said = {
        "SPARK_DRIVER_URL": "spark://driver:7078",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_ID": "2",
        "SPARK_EXECUTOR_CORES": "4",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
        "SPARK_EXECUTOR_POD_NAME": "job-exec-2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_DIST_CLASSPATH": "/opt/jars/*",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} of 11" for number in range(11)},
    }
    java, *found = started(environment | said, "executor")
    assert java == f"{tmp_path}/java"
    assert found[:13] == [*(f"-Dnumber={number} of 11" for number in range(11)), "-Xms1g", "-Xmx1g"]
    assert found[13:] == [
        "-cp", f"{tmp_path}/jars/*:/opt/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://driver:7078", "--app-id", "spark-1", "--executor-id", "2", "--cores", "4",
        "--hostname", "10.1.2.4", "--podName", "job-exec-2", "--resourceProfileId", "0",
    ]  # fmt: skip


def test_an_executor_without_its_driver_is_refused(environment: dict[str, str]) -> None:
    done = subprocess.run([ROOT / "entrypoint.sh", "executor"], env=environment, capture_output=True, check=False)
    assert done.returncode == 1


def test_whatever_else_is_a_command(environment: dict[str, str]) -> None:
    assert started(environment, "echo", "python -m", "pipeline") == ["python -m pipeline"]
