"""deploy/compose: valid by the Compose specification's schema, and the sidecars start with the files in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.config.settings import Address, load_settings
from proxy.control.directory import DEFAULT_BASE
from proxy.quota_files.quota_file import load_quotas_file
from proxy.tls.contexts import load

FOLDER = Path(__file__).parents[2] / "deploy" / "compose"
FILE = FOLDER / "compose.yaml"
MTLS = FOLDER / "mtls"
COMPOSE = yaml.safe_load(FILE.read_text())
BROKERS = (101, 102, 103)
DOWN_SECONDS = next(
    int(rule["for"].removesuffix("s"))
    for group in yaml.safe_load((FOLDER.parent / "prometheus" / "alerts.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if rule["alert"] == "ReplicationThrottleSidecarDown"
)
"""For how long a sidecar has to be down before its alert fires."""
CHECK = Path(sys.executable).with_name("check-jsonschema")


def check_schema(path: Path) -> subprocess.CompletedProcess[str]:
    command = [CHECK, "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = COMPOSE["services"][name]
    return found


def test_it_is_what_the_schema_wants_and_a_misspelt_key_is_not(tmp_path: Path) -> None:
    assert check_schema(FILE).returncode == 0
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("network_mode:", "network_modes:"))
    assert "network_modes" in check_schema(wrong).stdout


def test_every_image_has_a_version_and_no_service_a_privilege() -> None:
    for name, each in COMPOSE["services"].items():
        _, _, tag = each["image"].rpartition(":")
        assert tag.removeprefix("v")[0].isdigit(), name
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert not each.keys() & {"privileged", "cap_add", "secrets", "pid", "ipc", "devices"}, name
        published = each.get("ports", [])
        assert [port for port in published if not port.startswith("127.0.0.1:")] == [], name
    assert "password" not in FILE.read_text().lower().replace("without a password", "")


@pytest.mark.parametrize("broker", BROKERS)
def test_the_sidecar_starts_with_its_files_and_meets_the_brokers(broker: int) -> None:
    sidecar, beside = service(f"sidecar-{broker}"), service(f"kafka-{broker}")
    namespace = service(f"namespace-{broker}")
    # Neither owns it: one that crashes comes back to the other. Who owns it runs nothing that could crash.
    assert sidecar["network_mode"] == beside["network_mode"] == f"service:namespace-{broker}"
    assert (
        sidecar["depends_on"]
        == beside["depends_on"]
        == {f"namespace-{broker}": {"condition": "service_started", "restart": True}}
    )
    assert not namespace.keys() & {"network_mode", "build", "command", "entrypoint", "environment", "volumes"}
    assert (sidecar["user"], sidecar["read_only"]) == ("65532:65532", True)
    # Without a place for control.sock no command inside the container reaches it.
    ((place, _, options),) = (each.partition(":") for each in sidecar["tmpfs"])
    assert place == str(DEFAULT_BASE)
    assert {"uid=65532", "gid=65532", "mode=0700"} <= set(options.split(","))
    settings = load_settings(FOLDER / "sidecars" / str(broker) / "proxy.toml")
    assert f"./sidecars/{broker}:/etc/throttle-sidecar:ro" in sidecar["volumes"]
    assert f"./quotas:{settings.quotas.file.parent}:ro" in sidecar["volumes"]
    load_quotas_file(FOLDER / "quotas" / settings.quotas.file.name)
    assert (settings.broker.id, str(settings.broker.id)) == (broker, beside["environment"]["KAFKA_NODE_ID"])
    assert settings.ingress is not None
    assert f"REPLICATION://{settings.ingress.upstream}," in beside["environment"]["KAFKA_LISTENERS"]
    advertised = f"REPLICATION://kafka-{broker}:{settings.ingress.listen.port},"
    assert advertised in beside["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    hosts = dict(each.split("=") for each in namespace["extra_hosts"])
    assert settings.egress is not None
    assert {f"kafka-{peer.broker}": peer.listen for peer in settings.egress.peers} == {
        name: Address(host, settings.ingress.listen.port) for name, host in hosts.items()
    }
    for peer in settings.egress.peers:
        assert peer.upstream.host in service(f"namespace-{peer.broker}")["networks"]["kafka"]["aliases"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What certificates.sh makes, in a copy of its folder."""
    folder = tmp_path_factory.mktemp("mtls")
    shutil.copy(MTLS / "certificates.sh", folder)
    for _ in range(2):  # again at any time
        subprocess.run(["sh", folder / "certificates.sh"], check=True, capture_output=True)
    assert (folder / "keys").stat().st_mode & 0o077 == 0, "others on this host could read the key"
    return folder / "keys" / "tls"


def test_the_overlay_for_tls_is_what_the_schema_wants() -> None:
    assert check_schema(MTLS / "compose.yaml").returncode == 0


@pytest.mark.parametrize("broker", BROKERS)
def test_with_keys_every_leg_is_encrypted_and_every_name_certified(broker: int, keys: Path) -> None:
    overlay = yaml.safe_load((MTLS / "compose.yaml").read_text())["services"]
    sidecar, beside = overlay[f"sidecar-{broker}"], overlay[f"kafka-{broker}"]
    assert sidecar["volumes"] == beside["volumes"] == ["./mtls/keys/tls:/etc/kafka-replication-tls:ro"]
    assert {Path(value).name for key, value in beside["environment"].items() if key.endswith("LOCATION")} == {
        path.name for path in keys.iterdir()
    }
    environment = {key: value.replace("/etc/kafka-replication-tls", str(keys))
                   for key, value in sidecar["environment"].items()}  # fmt: skip
    settings = load_settings(FOLDER / "sidecars" / str(broker) / "proxy.toml", environ=environment)
    legs = {leg.name: load(leg) for role in settings.tls for leg in role.legs}
    assert list(legs) == ["ingress.listen", "ingress.upstream", "egress.listen", "egress.upstream"]
    assert settings.ingress is not None
    assert settings.egress is not None
    dialled = [f"kafka-{each}" for each in BROKERS]
    names = [*dialled, settings.ingress.server_name, *(peer.server_name for peer in settings.egress.peers)]
    (identity,) = legs["egress.listen"].identities
    assert [name for name in names if not identity.suits(name)] == []


def test_what_is_mounted_is_there() -> None:
    """Docker makes an empty directory of what is not."""
    sources = [
        volume.partition(":")[0]
        for each in COMPOSE["services"].values()
        for volume in each.get("volumes", [])
        if volume.startswith(".")
    ]
    assert [source for source in sources if not (FOLDER / source).exists()] == []


def test_prometheus_scrapes_every_sidecar_and_reads_the_rules() -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "`promtool` was not found on PATH: apt-get install prometheus"
    checked = subprocess.run(
        [promtool, "check", "config", "--syntax-only", FOLDER / "prometheus.yml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    every = {key: int(config["global"][key].removesuffix("s")) for key in ("scrape_interval", "evaluation_interval")}
    # Whoever is told that a sidecar is down is told before replicas leave the ISR, by replica.lag.time.max.ms.
    held = -(-DOWN_SECONDS // every["evaluation_interval"]) * every["evaluation_interval"]
    assert sum(every.values()) + held < 30
    (targets,) = (each["targets"] for job in config["scrape_configs"] for each in job["static_configs"])
    assert targets == [f"kafka-{broker}:9404" for broker in BROKERS]
    for broker in BROKERS:
        assert f"kafka-{broker}" in service(f"namespace-{broker}")["networks"]["kafka"]["aliases"]
    (rules,) = config["rule_files"]
    assert Path(rules).parent.as_posix() == "/etc/prometheus/rules"
    assert len(list((FOLDER.parent / "prometheus").glob(Path(rules).name))) == 2
