"""The distribution in an environment that has nothing else: each command works, or names the extra that it needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.commit import version

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools" / "bin" / "uv"

pytestmark = pytest.mark.timeout(300)  # the first test is charged with the installation
START_SECONDS = 30.0
CONFIG = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:19092"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:0"
"""
REASSIGNMENT = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [101, 102]}]}'


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of a plain `pip install .` are, without any extra; versions are those of the lock file."""
    home = tmp_path_factory.mktemp("install")
    locked = home / "locked.txt"
    plain = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}

    def uv(*arguments: object, check: bool = True) -> bool:
        done = subprocess.run([UV, "--quiet", *arguments], cwd=ROOT, env=plain, check=check, stdout=subprocess.DEVNULL)
        return done.returncode == 0

    uv("venv", "--python", sys.executable, home / "venv")
    uv("export", "--frozen", "--no-dev", "--no-hashes", "--no-emit-project", "--output-file", locked)
    install = ("pip", "install", "--python", home / "venv" / "bin" / "python", "--constraint", locked, ROOT)
    # The index is asked only for what this machine does not have yet: at times it does not answer.
    if not uv(*install, "--offline", check=False):
        uv(*install)
    return home / "venv" / "bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proxy.toml").write_text(CONFIG)
    (tmp_path / "quotas.toml").write_text('[brokers.default]\nleader.replication.throttled.rate = "50MiB/s"\n')
    (tmp_path / "move.json").write_text(REASSIGNMENT)
    return tmp_path


def run(environment: Path, folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = line.split()
    command = [environment / program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=START_SECONDS, check=False)


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("throttle-sidecar --help", 0, "Bound Apache Kafka's replication traffic"),
        ("throttle-sidecar check --config proxy.toml", 0, "50.00 MiB/s (52428800 B/s)"),
        ("throttle-sidecar demo", 2, "No such command 'demo'"),
        (
            "throttle-sidecar plan move.json --bootstrap 127.0.0.1:1",
            1,
            "pip install '.[operator]' in this project's folder",
        ),
        (
            "throttle-sidecar verify move.json --bootstrap 127.0.0.1:1",
            4,
            "pip install '.[operator]' in this project's folder",
        ),
    ],
)
def test_a_command_works_or_names_its_extra(environment: Path, folder: Path, line: str, status: int, says: str) -> None:
    ended = run(environment, folder, line)
    assert ended.returncode == status, ended.stderr
    assert says in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_nothing_of_the_lab_the_tests_or_the_pipeline_is_installed(environment: Path) -> None:
    (folder,) = environment.parent.glob("lib/python3.*/site-packages")
    found = {path.name for path in folder.iterdir()}
    assert {"proxy", "operating", "admission", "reassignment", "journal_schema", "protocol"} <= found
    assert found & {"lab", "tests", "benchmarks", "fuzz", "pipeline", "deploy", "pyspark"} == set()


def test_the_pipeline_is_a_distribution_of_its_own_beside_that_of_the_same_version(tmp_path: Path) -> None:
    build = [UV, "build", "--quiet", "--wheel", "--package", "kafka-throttle-pipeline", "--out-dir", tmp_path]
    if subprocess.run([*build, "--offline"], cwd=ROOT, capture_output=True, check=False).returncode:
        subprocess.run(build, cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {
            "pipeline",
            f"kafka_throttle_pipeline-{version()}.dist-info",
        }
        assert "pipeline/cli.py" in archive.namelist()
        about = archive.read(f"kafka_throttle_pipeline-{version()}.dist-info/METADATA").decode()
    assert f"Requires-Dist: kafka-throttle-sidecar=={version()}\n" in about


def test_it_runs_and_drains(environment: Path, folder: Path) -> None:
    command = [environment / "throttle-sidecar", "run", "--config", "proxy.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any('"event":"started"' in line for line in iter(process.stdout.readline, ""))
            process.send_signal(signal.SIGTERM)
            assert process.wait(START_SECONDS) == 0
        finally:
            process.kill()
