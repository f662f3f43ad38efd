"""deploy/kubernetes: rendered by kustomize, valid by schema, no privilege that is not needed, and the sidecar starts
with the files in it. The swap of a ConfigMap's files under a running sidecar is tests/system/test_live_change.py.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from lab.kubernetes.clients import kubectl_command
from proxy.config.settings import Address, EgressMode, Settings, load_settings
from proxy.config.tls_settings import ClientAuth
from proxy.control.directory import DEFAULT_BASE
from proxy.quota_files.quota_file import load_quotas_file
from proxy.quotas.names import glob_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
RENDERED = ("base", "overlays/peers", "overlays/transparent", "overlays/mtls")
POLICIES = ("policies/kubernetes", "policies/kyverno")
MONITORING = "components/prometheus-operator"
KUBERNETES_VERSION = "1.36"
OPERATORS = {
    kind: json.loads(Path(__file__).with_name(f"{kind.lower()}.schema.json").read_text())
    for kind in ("PodMonitor", "PrometheusRule", "Certificate", "ClusterPolicy")
}
Object = dict[str, Any]
PODS = 3
ORDER = ("throttle-redirect", "throttle-route-localnet", "throttle-sidecar", "throttle-guard")
STANDING = {"throttle": "standing"}
"""The label of a target whose quotas are meant to stay."""


def render(folder: Path) -> tuple[Object, ...]:
    done = subprocess.run([kubectl_command(), "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


@functools.cache
def rendered(overlay: str) -> tuple[Object, ...]:
    return render(ROOT / overlay)


def only(overlay: str, kind: str) -> Object:
    (found,) = (each for each in rendered(overlay) if each["kind"] == kind)
    return found


def pod(overlay: str) -> Object:
    template: Object = only(overlay, "StatefulSet")["spec"]["template"]
    return template


def containers(overlay: str) -> dict[str, Object]:
    spec = pod(overlay)["spec"]
    return {each["name"]: each for each in [*spec["initContainers"], *spec["containers"]]}


def config_map(overlay: str, name: str) -> Object:
    (found,) = (
        each for each in rendered(overlay) if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith(name)
    )
    return found


def values(node: Any) -> Iterator[tuple[str, Any]]:
    """Every key and value, however deep."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield str(key), value
        yield from values(value)


def validate(each: Object) -> None:
    if each["kind"] in OPERATORS:
        jsonschema.validate(each, OPERATORS[each["kind"]])
    else:
        kubernetes_validate.validate(each, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("overlay", [*RENDERED, *POLICIES, MONITORING])
def test_every_object_is_what_its_schema_wants(overlay: str) -> None:
    for each in rendered(overlay):
        validate(each)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("StatefulSet", ("spec", "replicas"), "three"),
        ("StatefulSet", ("spec", "template", "spec", "hostnames"), []),
        ("NetworkPolicy", ("spec", "ingres"), []),
        ("PodMonitor", ("spec", "podMetricsEndpoint"), []),
        ("PodMonitor", ("spec", "podMetricsEndpoints"), "all"),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "expression"), "up"),
        ("ClusterPolicy", ("spec", "rules", 0, "mutate", "patchesStrategicMerge"), {}),
        ("ClusterPolicy", ("spec", "rules", 0, "match", "any", 0, "resources", "kinds"), "Pod"),
    ],
)
def test_the_schemas_refuse_what_is_wrong(kind: str, path: tuple[Any, ...], value: object) -> None:
    where = "policies/kyverno" if kind == "ClusterPolicy" else MONITORING if kind in OPERATORS else "base"
    wrong = json.loads(json.dumps(only(where, kind)))
    place = functools.reduce(lambda node, key: node[key], path[:-1], wrong)
    place[path[-1]] = value
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        validate(wrong)


@pytest.mark.parametrize("overlay", RENDERED)
def test_a_cluster_without_the_prometheus_operator_knows_every_kind(overlay: str) -> None:
    assert {each["kind"] for each in rendered(overlay)} & {"PodMonitor", "PrometheusRule"} == set()


def test_an_overlay_takes_the_component_in(tmp_path: Path) -> None:
    tree = shutil.copytree(ROOT, tmp_path / "kubernetes")
    kustomization = tree / "overlays" / "peers" / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text() + "components: [../../components/prometheus-operator]\n")
    found = [each for each in render(tree / "overlays" / "peers") if each["kind"] in OPERATORS]
    assert [(each["kind"], each["metadata"]["namespace"]) for each in found] == [
        ("PodMonitor", "kafka"),
        ("PrometheusRule", "kafka"),
    ]


def test_the_guards_component_adds_what_the_chart_adds(tmp_path: Path) -> None:
    """But for where the files are: one proxy.toml for all pods."""
    tree = shutil.copytree(ROOT, tmp_path / "kubernetes")
    kustomization = tree / "overlays" / "transparent" / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text() + "components: [../../components/guard]\n")
    (stateful_set,) = (each for each in render(tree / "overlays" / "transparent") if each["kind"] == "StatefulSet")
    validate(stateful_set)
    spec = stateful_set["spec"]["template"]["spec"]
    redirect, localnet, sidecar, guard = sorted(spec["initContainers"], key=lambda each: ORDER.index(each["name"]))
    chart = (Path(__file__).with_name("golden") / "helm" / "guard.yaml").read_text()
    (patch,) = (each for each in yaml.safe_load_all(chart) if each["metadata"]["name"] == "throttle-patch")
    of_chart = json.loads(patch["data"]["add.json"])["spec"]["template"]["spec"]["initContainers"]
    *_, charts_localnet, _, charts_guard = of_chart
    own = {"args", "env"}
    assert localnet == charts_localnet
    assert {key: value for key, value in guard.items() if key not in own} == {
        key: value for key, value in charts_guard.items() if key not in own
    }
    assert sorted({*guard["args"]} - {*charts_guard["args"]}) == [sidecar["args"][1]]
    assert guard["env"] == [each for each in sidecar["env"] if each["name"] == "THROTTLE_BROKER__ID"]
    assert spec["initContainers"][-1] is guard
    assert redirect["image"] == guard["image"]


@pytest.mark.parametrize("overlay", RENDERED)
def test_a_brokers_data_is_in_a_folder_of_its_volume_not_at_the_top(overlay: str) -> None:
    """At the top of a volume of ext4 is lost+found, and a broker does not start beside a folder of no partition."""
    kafka = containers(overlay)["kafka"]
    (data,) = (Path(each["value"]) for each in kafka["env"] if each["name"] == "KAFKA_LOG_DIRS")
    (claim,) = only(overlay, "StatefulSet")["spec"]["volumeClaimTemplates"]
    (top,) = (Path(each["mountPath"]) for each in kafka["volumeMounts"] if each["name"] == claim["metadata"]["name"])
    assert data.parent == top


def relabelled(monitor: Object) -> dict[str, str]:
    """The labels that each target of a PodMonitor gets."""
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert all(each["action"] == "replace" and "sourceLabels" not in each for each in endpoint["relabelings"])
    return {each["targetLabel"]: each["replacement"] for each in endpoint["relabelings"]}


def test_quotas_that_are_meant_to_stay_say_so_to_the_rules() -> None:
    """Those of the base list every replica for good, so no alert is to take them for forgotten."""
    (quotas,) = config_map("base", "throttle-quotas")["data"].values()
    assert tomllib.loads(quotas)["brokers"]["default"]["leader"]["replication"]["throttled"]["replicas"] == "*"
    assert relabelled(only(MONITORING, "PodMonitor")) == {"cluster": "kafka", **STANDING}
    rules = only(MONITORING, "PrometheusRule")["spec"]["groups"]
    (left,) = (rule for each in rules for rule in each["rules"] if rule.get("alert") == "ReplicationThrottleLeftBehind")
    ((label, value),) = STANDING.items()
    assert f'{label}!="{value}"' in left["expr"]


@pytest.mark.parametrize("overlay", RENDERED)
def test_there_is_no_secret_and_every_image_has_a_version(overlay: str) -> None:
    assert "Secret" not in {each["kind"] for each in rendered(overlay)}
    found = list(values(list(rendered(overlay))))
    # A volume of keys is named; what is in it is cert-manager's.
    named = {"secretName"} if overlay.endswith("mtls") else set()
    assert {key for key, _ in found if key in ("secretKeyRef", "secretRef", "secretName", "stringData")} == named
    assert [value for key, value in found if "password" in f"{key}{value}".lower()] == []
    for name, container in containers(overlay).items():
        image, _, tag = container["image"].rpartition(":")
        assert image, name
        assert tag[0].isdigit(), f"{name}: {tag}"


@pytest.mark.parametrize("overlay", RENDERED)
def test_nothing_has_a_privilege_but_the_redirecting_init_container(overlay: str) -> None:
    spec = pod(overlay)["spec"]
    keys = {key for key, value in values(spec) if value is not False}
    assert keys & {"privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "procMount"} == set()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    privileged = {}
    for name, container in containers(overlay).items():
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"], name
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        # apache/kafka's entry point writes its own configuration.
        assert context.get("readOnlyRootFilesystem") is (None if name == "kafka" else True), name
        assert "memory" in container["resources"]["limits"], name
        if context["runAsUser"] == 0 or not context["runAsNonRoot"] or "add" in context["capabilities"]:
            privileged[name] = context["capabilities"].get("add")
    expected = {"throttle-redirect": ["NET_ADMIN"]} if overlay.endswith("transparent") else {}
    assert privileged == expected


@pytest.mark.parametrize("overlay", RENDERED)
def test_variables_come_before_those_that_use_them(overlay: str) -> None:
    """A kubelet leaves the name of one that comes later, or never, as it is written."""
    for container in containers(overlay).values():
        known: set[str] = set()
        for variable in container.get("env", []):
            used = set(re.findall(r"\$\((\w+)\)", variable.get("value", "")))
            assert used <= known, variable["name"]
            known.add(variable["name"])
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container.get("args", [])))) <= known


@pytest.mark.parametrize("overlay", RENDERED)
def test_the_sidecar_starts_before_the_broker_and_stops_after_it(overlay: str, tmp_path: Path) -> None:
    spec = pod(overlay)["spec"]
    names = [container["name"] for container in spec["initContainers"]]
    assert names == [*(["throttle-redirect"] if overlay.endswith("transparent") else []), "throttle-sidecar"]
    sidecar = containers(overlay)["throttle-sidecar"]
    assert sidecar["restartPolicy"] == "Always"
    ports = {port["name"] for port in sidecar["ports"]}
    assert {sidecar[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "liveness", "readiness")} <= ports
    assert spec["terminationGracePeriodSeconds"] > load(overlay, 0, tmp_path).limits.drain_seconds


@pytest.mark.parametrize("overlay", RENDERED)
def test_quotas_are_mounted_as_a_directory_under_a_name_that_stays(overlay: str) -> None:
    assert [key for key, _ in values(pod(overlay)) if key in ("subPath", "subPathExpr")] == []
    assert config_map(overlay, "throttle-quotas")["metadata"]["name"] == "throttle-quotas"
    static = config_map(overlay, "throttle-sidecar")["metadata"]["name"]
    assert static != "throttle-sidecar", "without its hash a change would roll nothing"
    volumes = {
        each["name"]: each["configMap"]["name"] for each in pod(overlay)["spec"]["volumes"] if "configMap" in each
    }
    assert volumes == {"throttle-quotas": "throttle-quotas", "throttle-sidecar": static}


@pytest.mark.parametrize("overlay", RENDERED)
def test_the_last_good_quotas_outlive_the_container(overlay: str) -> None:
    sidecar = containers(overlay)["throttle-sidecar"]
    (state,) = (Path(each["value"]) for each in sidecar["env"] if each["name"] == "THROTTLE_QUOTAS__STATE")
    (mount,) = (each for each in sidecar["volumeMounts"] if each["mountPath"] == str(state.parent))
    (volume,) = (each for each in pod(overlay)["spec"]["volumes"] if each["name"] == mount["name"])
    assert "emptyDir" in volume
    assert not mount.get("readOnly", False)


@pytest.mark.parametrize("overlay", RENDERED)
def test_the_control_directory_can_be_written_and_is_the_pods(overlay: str) -> None:
    """The root file system is read-only: without a volume there is no control.sock, and `set` reaches nobody."""
    sidecar = containers(overlay)["throttle-sidecar"]
    (mount,) = (each for each in sidecar["volumeMounts"] if each["mountPath"] == str(DEFAULT_BASE))
    assert not mount.get("readOnly", False)
    (volume,) = (each for each in pod(overlay)["spec"]["volumes"] if each["name"] == mount["name"])
    assert volume["emptyDir"]["medium"] == "Memory"


def load(overlay: str, index: int, folder: Path) -> Settings:
    """The settings of one pod's sidecar, its files where the kubelet would put them, below `folder`."""
    sidecar = containers(overlay)["throttle-sidecar"]
    (option,) = (argument for argument in sidecar["args"] if argument.startswith("--config="))
    path = option.removeprefix("--config=").replace("$(POD_NAME)", f"kafka-{index}")
    mounts = {each["name"]: each["mountPath"] for each in sidecar["volumeMounts"]}
    assert str(Path(path).parent) == mounts["throttle-sidecar"]
    found = config_map(overlay, "throttle-sidecar")["data"][Path(path).name]
    written = folder / "proxy.toml"
    written.write_text(found)
    environment = {
        each["name"]: each["value"].replace("$(POD_NAME)", f"kafka-{index}")
        for each in sidecar["env"]
        if "value" in each
    }
    return load_settings(written, environ=environment | {"THROTTLE_BROKER__ID": str(index)})


@pytest.mark.parametrize("index", range(PODS))
@pytest.mark.parametrize("overlay", RENDERED)
def test_the_sidecar_starts_with_its_files_and_meets_the_broker(overlay: str, index: int, tmp_path: Path) -> None:
    settings = load(overlay, index, tmp_path)
    assert settings.broker.id == index
    assert containers(overlay)["throttle-sidecar"]["resources"]["limits"]["memory"] == "512Mi"
    assert settings.limits.max_memory_bytes < 512 * 2**20
    environment = {each["name"]: each.get("value") for each in containers(overlay)["kafka"]["env"]}
    assert settings.ingress is not None
    assert f"REPLICATION://{settings.ingress.upstream}," in environment["KAFKA_LISTENERS"]
    assert (
        f"REPLICATION://$(POD_NAME).kafka:{settings.ingress.listen.port}," in environment["KAFKA_ADVERTISED_LISTENERS"]
    )
    assert environment["KAFKA_INTER_BROKER_LISTENER_NAME"] == "REPLICATION"
    (http_port,) = (
        port["containerPort"]
        for port in containers(overlay)["throttle-sidecar"]["ports"]
        if port["name"] == only(MONITORING, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"]
    )
    assert settings.http.listen == Address("0.0.0.0", http_port)
    assert settings.quotas.file == Path("/etc/throttle-sidecar-quotas/quotas.toml")
    (quotas,) = config_map(overlay, "throttle-quotas")["data"].values()
    (tmp_path / "quotas.toml").write_text(quotas)
    load_quotas_file(tmp_path / "quotas.toml")


@pytest.mark.parametrize("index", range(PODS))
def test_peers_are_the_others_under_the_names_they_advertise(index: int, tmp_path: Path) -> None:
    settings = load("overlays/peers", index, tmp_path)
    assert settings.egress is not None
    assert settings.egress.mode is EgressMode.PEERS
    assert [peer.broker for peer in settings.egress.peers] == [other for other in range(PODS) if other != index]
    aliases = {name: each["ip"] for each in pod("overlays/peers")["spec"]["hostAliases"] for name in each["hostnames"]}
    assert aliases == {f"kafka-{other}.kafka": f"127.0.{100 + other}.1" for other in range(PODS)}
    for peer in settings.egress.peers:
        assert peer.listen == Address(aliases[f"kafka-{peer.broker}.kafka"], 9092)
        # By another name than the one that leads back here.
        assert peer.upstream == Address(f"kafka-{peer.broker}.kafka.kafka.svc.cluster.local", 9092)


def certified(name: str) -> bool:
    """Whether the certificate of the overlay has the name, by itself or by a wildcard."""
    names = only("overlays/mtls", "Certificate")["spec"]["dnsNames"]
    return name in names or f"*.{name.partition('.')[2]}" in names


@pytest.mark.parametrize("index", range(PODS))
def test_every_leg_has_keys_and_every_name_a_certificate(index: int, tmp_path: Path) -> None:
    settings = load("overlays/mtls", index, tmp_path)
    certificate = only("overlays/mtls", "Certificate")["spec"]
    legs = [leg for role in settings.tls for leg in role.legs]
    assert [leg.name for leg in legs] == ["ingress.listen", "ingress.upstream", "egress.listen", "egress.upstream"]
    assert all(leg.verifies_names and (leg.client_auth is ClientAuth.REQUIRED) == leg.listens for leg in legs)
    assert settings.ingress is not None
    assert settings.egress is not None
    assert settings.ingress.server_name == f"kafka-{index}.kafka"
    (allowed,) = next(leg for leg in legs if leg.name == "ingress.listen").allowed_names
    assert any(glob_of(allowed).matches(name) for name in certificate["dnsNames"])
    # What brokers dial, and what the sidecar does.
    dialled = [f"kafka-{other}.kafka" for other in range(PODS)]
    assert [name for name in [*dialled, *(p.server_name for p in settings.egress.peers)] if not certified(name)] == []
    assert {"server auth", "client auth"} <= set(certificate["usages"])
    spec = pod("overlays/mtls")["spec"]
    (volume,) = (each for each in spec["volumes"] if "secret" in each)
    assert volume["secret"]["secretName"] == certificate["secretName"]
    for name, container in containers("overlays/mtls").items():
        (mount,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == volume["name"])
        files = {each["value"] for each in container["env"] if each["name"].upper().endswith("STORE_LOCATION")}
        files |= {str(path) for leg in legs for path in leg.files} if name == "throttle-sidecar" else set()
        assert files == {f"{mount}/tls-combined.pem", f"{mount}/ca.crt"}
    environment = {each["name"]: each.get("value") for each in containers("overlays/mtls")["kafka"]["env"]}
    assert environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].startswith("REPLICATION:SSL,")
    assert environment["KAFKA_SSL_CLIENT_AUTH"] == "required"


def test_what_is_redirected_is_what_the_sidecar_takes(tmp_path: Path) -> None:
    settings = load("overlays/transparent", 0, tmp_path)
    assert settings.egress is not None
    assert settings.egress.listen is not None
    assert settings.egress.mode is EgressMode.TRANSPARENT
    assert settings.ingress is not None
    found = containers("overlays/transparent")
    assert found["throttle-redirect"]["args"] == [
        "add", "--ports", str(settings.ingress.listen.port), "--to", str(settings.egress.listen.port),
        "--uid", str(found["throttle-sidecar"]["securityContext"]["runAsUser"]),
    ]  # fmt: skip
    assert found["kafka"]["securityContext"]["runAsUser"] != found["throttle-sidecar"]["securityContext"]["runAsUser"]


@pytest.mark.parametrize("overlay", RENDERED)
def test_who_selects_pods_selects_these(overlay: str) -> None:
    labels = pod(overlay)["metadata"]["labels"].items()
    selectors = [
        only(overlay, "StatefulSet")["spec"]["selector"]["matchLabels"],
        only(overlay, "Service")["spec"]["selector"],
        only(overlay, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only(overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        only(MONITORING, "PodMonitor")["spec"]["selector"]["matchLabels"],
    ]
    assert [selector for selector in selectors if not selector.items() <= labels] == []
    (scraped,) = (rule for rule in only(overlay, "NetworkPolicy")["spec"]["ingress"] if {"port": 9404} in rule["ports"])
    assert scraped["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
