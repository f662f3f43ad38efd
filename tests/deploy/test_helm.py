"""deploy/helm: linted, rendered as it was, valid by schema, and sidecars start with what it renders."""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from lab.kubernetes.clients import helm_command
from proxy.config.settings import Address, EgressMode, load_settings
from proxy.control.directory import DEFAULT_BASE
from proxy.quota_files.quota_file import load_quotas_file

from .helm_cases import CASES, CHART, GOLDEN, OPERATOR, brokers, render, rendered
from .test_kubernetes import KUBERNETES_VERSION, OPERATORS, STANDING, relabelled, values

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.config.settings import Settings

Object = dict[str, Any]


def objects(name: str) -> list[Object]:
    return list(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))


def config_map(name: str, suffix: str = "") -> Object:
    (found,) = (
        each
        for each in objects(name)
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == f"throttle{suffix}"
    )
    data: Object = found["data"]
    return data


def pod(name: str) -> Object:
    spec: Object = json.loads(config_map(name, "-patch")["add.json"])["spec"]["template"]["spec"]
    return spec


def test_versions_are_the_distributions() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.parametrize("name", CASES)
def test_lint_finds_nothing(name: str) -> None:
    command = [helm_command(), "lint", "--strict", str(CHART), "--values=-"]
    done = subprocess.run(
        command, input=yaml.safe_dump(CASES[name].values), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("name", CASES)
def test_it_renders_as_it_did(name: str) -> None:
    assert rendered(CASES[name]) == (GOLDEN / f"{name}.yaml").read_text(), "python -m tests.deploy.helm_cases"


@pytest.mark.parametrize("name", CASES)
def test_every_object_is_what_its_schema_wants(name: str) -> None:
    for each in objects(name):
        if each["kind"] in OPERATORS:
            jsonschema.validate(each, OPERATORS[each["kind"]])
        else:
            kubernetes_validate.validate(each, KUBERNETES_VERSION, strict=True)
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {**pod(name), "containers": [{"name": "kafka", "image": "kafka:1"}]},
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "kafka"},
        "spec": {"serviceName": "kafka", "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    kubernetes_validate.validate(stateful_set, KUBERNETES_VERSION, strict=True)


def load(name: str, broker: Object, folder: Path) -> Settings:
    """The settings of one broker's sidecar, as its container starts it."""
    (container,) = (each for each in pod(name)["initContainers"] if each["name"] == "throttle-sidecar")
    run, config, *overrides = container["args"]
    assert (run, config) == ("run", "--config=/etc/throttle-sidecar/$(POD_NAME).toml")
    (folder / "proxy.toml").write_text(config_map(name)[f"{broker['pod']}.toml"])
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    return load_settings(folder / "proxy.toml", tuple(each.removeprefix("--set=") for each in overrides), environment)


@pytest.mark.parametrize("name", CASES)
def test_every_sidecar_starts_with_its_files(name: str, tmp_path: Path) -> None:
    case = CASES[name].values
    for broker in case["brokers"]:
        settings = load(name, broker, tmp_path)
        assert settings.broker.id == broker["id"]
        (sidecar,) = (each for each in pod(name)["initContainers"] if each["name"] == "throttle-sidecar")
        mounts = [each["mountPath"] for each in sidecar["volumeMounts"]]
        assert str(settings.quotas.file.parent) in mounts
        assert settings.limits.max_memory_bytes < 512 * 2**20
    (tmp_path / "quotas.toml").write_text(config_map(name, "-quotas")["quotas.toml"])
    load_quotas_file(tmp_path / "quotas.toml")


def container_in(text: str) -> Object:
    """The sidecar's container, as the patch for a StatefulSet adds it."""
    (patch,) = (each for each in yaml.safe_load_all(text) if each["metadata"]["name"] == "throttle-patch")
    containers = json.loads(patch["data"]["add.json"])["spec"]["template"]["spec"]["initContainers"]
    (found,) = (each for each in containers if each["name"] == "throttle-sidecar")
    return dict(found)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("limits.max_connections", 1_000_000, "1000000"),
        ("limits.max_memory", 448 * 2**20, "469762048"),
        ("limits.max_connections", 500, "500"),
        ("http.reload", False, "false"),
        ("log.level", "debug", "debug"),
        ("http.writers", '["CN=a"]', '["CN=a"]'),
    ],
)
def test_a_setting_arrives_as_it_was_written(key: str, value: object, told: str) -> None:
    """Helm reads numbers as floating-point ones, which print from a million on as 1e+06: no number of replicas."""
    found = container_in(render({"brokers": brokers(2), "settings": {key: value}}).stdout)
    assert f"--set={key}={told}" in found["args"]


def test_peers_are_the_others_by_the_addresses_their_names_lead_to(tmp_path: Path) -> None:
    aliases = {name: each["ip"] for each in pod("peers")["hostAliases"] for name in each["hostnames"]}
    for broker in brokers():
        egress = load("peers", broker, tmp_path).egress
        assert egress is not None
        others = [other for other in brokers() if other["id"] != broker["id"]]
        assert [(peer.broker, peer.listen, peer.upstream) for peer in egress.peers] == [
            (other["id"], Address(aliases[other["name"]], 9092), Address(other["address"], 9092)) for other in others
        ]


def test_leaders_are_met_by_the_names_that_their_certificates_have(tmp_path: Path) -> None:
    first, second = CASES["everything"].values["brokers"]
    egress = load("everything", first, tmp_path).egress
    assert egress is not None
    (peer,) = egress.peers
    assert (peer.server_name, peer.upstream.host) == (second["name"], second["address"])


def test_strimzis_brokers_are_redirected_since_they_listen_on_every_interface(tmp_path: Path) -> None:
    """What dials them says by SNI whom it means, so certificates are held to names without a list of peers."""
    settings = load("strimzi", CASES["strimzi"].values["brokers"][0], tmp_path)
    assert settings.ingress is None
    assert settings.egress is not None
    assert settings.egress.mode is EgressMode.TRANSPARENT
    redirect, sidecar = pod("strimzi")["initContainers"]
    assert redirect["args"][:3] == ["add", "--ports", "9091"]
    mounted = {each["mountPath"] for each in sidecar["volumeMounts"]}
    assert settings.egress.tls is not None
    for leg in (settings.egress.tls.listen, settings.egress.tls.upstream):
        assert leg is not None
        assert str(leg.keystores[0].location.parent) in mounted


def test_what_is_redirected_is_what_the_sidecar_takes(tmp_path: Path) -> None:
    egress = load("transparent", brokers(2, first=100)[0], tmp_path).egress
    assert egress is not None
    assert egress.listen is not None
    redirect, sidecar = pod("transparent")["initContainers"]
    assert redirect["args"] == [
        "add", "--ports", "9092", "--to", str(egress.listen.port),
        "--uid", str(sidecar["securityContext"]["runAsUser"]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_last_good_quotas_outlive_the_container(name: str, tmp_path: Path) -> None:
    """Else a sidecar that restarts while the ConfigMap is wrong throttles nothing."""
    state = load(name, CASES[name].values["brokers"][0], tmp_path).quotas.state
    (sidecar,) = (each for each in pod(name)["initContainers"] if each["name"] == "throttle-sidecar")
    (mount,) = (each for each in sidecar["volumeMounts"] if each["mountPath"] == str(state.parent))
    assert not mount.get("readOnly", False)
    (volume,) = (each for each in pod(name)["volumes"] if each["name"] == mount["name"])
    assert "emptyDir" in volume


@pytest.mark.parametrize("name", CASES)
def test_the_control_directory_can_be_written_and_is_the_pods(name: str) -> None:
    """The root file system is read-only: without a volume there is no control.sock, and `set` reaches nobody."""
    (sidecar,) = (each for each in pod(name)["initContainers"] if each["name"] == "throttle-sidecar")
    (mount,) = (each for each in sidecar["volumeMounts"] if each["mountPath"] == str(DEFAULT_BASE))
    assert not mount.get("readOnly", False)
    (volume,) = (each for each in pod(name)["volumes"] if each["name"] == mount["name"])
    assert volume["emptyDir"]["medium"] == "Memory"


def test_the_state_is_in_a_volume_of_the_brokers_where_one_is_named() -> None:
    values = {"brokers": brokers(2), "quotas": {"stateVolume": "data"}}
    text = render(values).stdout
    (patch,) = (each for each in yaml.safe_load_all(text) if each["metadata"]["name"] == "throttle-patch")
    spec = json.loads(patch["data"]["add.json"])["spec"]["template"]["spec"]
    assert not {"data", "throttle-state"} & {each["name"] for each in spec["volumes"]}
    (mount,) = (each for each in container_in(text)["volumeMounts"] if each["mountPath"] == "/var/lib/throttle-sidecar")
    assert mount == {"name": "data", "mountPath": "/var/lib/throttle-sidecar", "subPath": "throttle-sidecar"}


@pytest.mark.parametrize("name", sorted(set(CASES) - {"guard"}))
def test_nothing_has_a_privilege_but_the_redirecting_init_container(name: str) -> None:
    keys = {key for key, value in values(pod(name)) if value is not False}
    assert keys & {"privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "procMount"} == set()
    for container in pod(name)["initContainers"]:
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["capabilities"].get("add") == (
            ["NET_ADMIN"] if container["name"] == "throttle-redirect" else None
        )
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]


def test_the_guard_is_who_control_sock_answers_and_starts_after_it() -> None:
    """Root is trusted there (proxy/control/control_socket.py), and has to be let into a directory of mode 0700."""
    before, after = ["throttle-redirect", "throttle-route-localnet"], ["throttle-sidecar", "throttle-guard"]
    assert [each["name"] for each in pod("guard")["initContainers"]] == [*before, *after]
    *_, sidecar, guard = pod("guard")["initContainers"]
    assert guard["restartPolicy"] == "Always"
    context = guard["securityContext"]
    assert (context["runAsUser"], context["capabilities"]) == (
        0,
        {"drop": ["ALL"], "add": ["NET_ADMIN", "DAC_OVERRIDE"]},
    )
    assert not context["allowPrivilegeEscalation"]
    shared = {"throttle-sidecar", "throttle-control"}
    of_guard = {each["name"]: each for each in guard["volumeMounts"]}
    assert of_guard == {each["name"]: each for each in sidecar["volumeMounts"] if each["name"] in shared}
    # The same proxy.toml, and redirect.sh's ports and user.
    assert guard["args"][1] == sidecar["args"][1]
    redirect = pod("guard")["initContainers"][0]
    options = dict(zip(redirect["args"][1::2], redirect["args"][2::2], strict=True))
    assert {f"--ports={options['--ports']}", f"--uid={options['--uid']}"} <= set(guard["args"])
    assert guard["image"] == redirect["image"]


def test_a_guard_gets_the_sidecars_settings_and_no_privilege_without_an_ingress() -> None:
    values = {
        "brokers": brokers(2), "ingress": {"enabled": False}, "egress": {"mode": "transparent", "port": 9091},
        "guard": {"create": True, "after": "0.5s"},
    }  # fmt: skip
    (patch,) = (
        each for each in yaml.safe_load_all(render(values).stdout) if each["metadata"]["name"] == "throttle-patch"
    )
    found = {
        each["name"]: each
        for each in json.loads(patch["data"]["add.json"])["spec"]["template"]["spec"]["initContainers"]
    }
    assert set(found) == {"throttle-redirect", "throttle-sidecar", "throttle-guard"}
    assert set(found["throttle-sidecar"]["args"][2:]) < set(found["throttle-guard"]["args"])
    assert {"--after=0.5s", "--ports=9091"} < set(found["throttle-guard"]["args"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "guard.create: expected egress.mode transparent"),
        (
            {"egress": {"enabled": False}, "ipFamily": "IPv6"},
            "guard.create: expected ipFamily IPv4 with ingress.enabled",
        ),
        ({"egress": {"enabled": False}, "guard": {"create": True, "after": "0.4s"}}, "guard.after"),
    ],
    ids=["peers", "IPv6", "too soon"],
)
def test_a_guard_that_would_not_start_is_refused(values: Object, said: str) -> None:
    done = render({"brokers": brokers(2), "guard": {"create": True}, **values})
    assert done.returncode == 1
    assert said in done.stderr or said.replace(".", "/") in done.stderr


def test_what_takes_it_away_names_all_that_was_added_but_what_the_broker_may_need() -> None:
    for name in CASES:
        removed = json.loads(config_map(name, "-patch")["remove.json"])["spec"]["template"]["spec"]
        added = {key: items for key, items in pod(name).items() if key != "imagePullSecrets"}
        assert removed.keys() == added.keys()
        for key, items in added.items():
            by = "ip" if key == "hostAliases" else "name"
            assert removed[key] == [{"$patch": "delete", by: item[by]} for item in items]


def test_every_image_can_be_pulled_by_the_named_secrets() -> None:
    more = {"imagePullSecrets": [{"name": "registry"}], "injection": {"engine": "kubernetes"}}
    found = list(yaml.safe_load_all(render({"brokers": brokers(2), **more}).stdout))
    (patch,) = (each["data"]["add.json"] for each in found if each["metadata"]["name"] == "throttle-patch")
    assert json.loads(patch)["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    (policy,) = (each["spec"] for each in found if each["kind"] == "MutatingAdmissionPolicy")
    assert '"imagePullSecrets": dyn([dyn({"name": dyn("registry")})])' in policy["variables"][1]["expression"]


@pytest.mark.parametrize(("family", "host"), [(None, "0.0.0.0"), ("IPv4", "0.0.0.0"), ("IPv6", "::")])
def test_what_the_others_reach_listens_on_the_pods_family(family: str | None, host: str, tmp_path: Path) -> None:
    """What only the broker beside reaches stays on IPv4's loopback, which pods have in either case."""
    chosen = {} if family is None else {"ipFamily": family}
    text = render({"brokers": brokers(2), **chosen}).stdout
    (found,) = (each["data"] for each in yaml.safe_load_all(text) if each["metadata"]["name"] == "throttle")
    (tmp_path / "proxy.toml").write_text(found["kafka-0.toml"])
    settings = load_settings(tmp_path / "proxy.toml", (), {})
    assert settings.ingress is not None
    assert settings.egress is not None
    assert (settings.ingress.listen, settings.http.listen) == (Address(host, 9092), Address(host, 9404))
    assert settings.ingress.upstream == Address("127.0.0.1", 19092)
    assert [peer.listen for peer in settings.egress.peers] == [Address("127.0.101.1", 9092)]


@pytest.mark.parametrize("required", [True, "true", False])
def test_prometheus_shows_the_token_where_every_page_wants_it(required: object) -> None:
    more = {"settings": {"http.require_token": required}, "http": {"tokenSecretName": "throttle-token"}}
    text = render({"brokers": brokers(2), "podMonitor": {"create": True}, **more}).stdout
    (monitor,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "PodMonitor")
    jsonschema.validate(monitor, OPERATORS["PodMonitor"])
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    shown = {"credentials": {"name": "throttle-token", "key": "token"}}
    assert endpoint.get("authorization") == (shown if required else None)


def test_quotas_of_ones_own_are_mounted_and_never_rendered() -> None:
    """Tools that render without asking the cluster, and rollbacks, would write the chart's over them."""
    text = render({"brokers": brokers(2), "quotas": {"create": False}}).stdout
    found = [each for each in yaml.safe_load_all(text) if each]
    assert [each["metadata"]["name"] for each in found] == ["throttle", "throttle-patch"]
    spec = json.loads(found[1]["data"]["add.json"])["spec"]["template"]["spec"]
    assert {"name": "throttle-quotas", "configMap": {"name": "throttle-quotas"}} in spec["volumes"]


KEYS = {
    "http.tls.ssl.keystore.location": "/etc/throttle-sidecar-tls/http/tls.crt",
    "http.tls.ssl.key.location": "/etc/throttle-sidecar-tls/http/tls.key",
    "http.tls.ssl.truststore.location": "/etc/throttle-sidecar-tls/http/ca.crt",
}


@pytest.mark.parametrize(
    ("settings", "encrypts"),
    [
        ({}, False),
        ({"http.tls.security.protocol": "PLAINTEXT"}, False),
        (KEYS, True),
        ({**KEYS, "http.tls.ssl.client.auth": "requested"}, True),
    ],
    ids=str,
)
def test_probes_and_scrapes_speak_as_the_http_port_does(settings: Object, encrypts: bool, tmp_path: Path) -> None:
    """A probe that speaks plaintext to TLS fails, and then the kubelet restarts the sidecar again and again."""
    monitor = {"create": True, "tlsConfig": {"insecureSkipVerify": True}}
    text = render({"brokers": brokers(2), "settings": settings, "podMonitor": monitor}).stdout
    container = container_in(text)
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"}
    (tmp_path / "proxy.toml").write_text(found["throttle"]["data"]["kafka-0.toml"])
    overrides = [each.removeprefix("--set=") for each in container["args"] if each.startswith("--set=")]
    assert (load_settings(tmp_path / "proxy.toml", overrides, {}).http.tls is not None) == encrypts
    schemes = {container[f"{probe}Probe"]["httpGet"].get("scheme") for probe in ("startup", "liveness", "readiness")}
    assert schemes == {"HTTPS" if encrypts else None}
    (scraped,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "PodMonitor")
    jsonschema.validate(scraped, OPERATORS["PodMonitor"])
    (endpoint,) = scraped["spec"]["podMetricsEndpoints"]
    assert (endpoint.get("scheme"), "tlsConfig" in endpoint) == (("https", True) if encrypts else (None, False))


def kinds(text: str) -> set[str]:
    return {each["kind"] for each in yaml.safe_load_all(text) if each}


def test_objects_of_other_makers_are_there_where_their_kinds_are_or_are_asked_for() -> None:
    values = {"brokers": brokers(2)}
    known = [f"--api-versions={kind}" for kind in OPERATOR]
    assert kinds(render(values).stdout) == {"ConfigMap"}
    assert kinds(render(values, *known).stdout) == {"ConfigMap", "PodMonitor", "PrometheusRule"}
    off = {**values, "podMonitor": {"create": False}, "prometheusRule": {"create": False}}
    assert kinds(render(off, *known).stdout) == {"ConfigMap"}
    on = {**values, "podMonitor": {"create": True}, "networkPolicy": {"create": True}}
    assert kinds(render(on).stdout) == {"ConfigMap", "PodMonitor", "NetworkPolicy"}


@pytest.mark.parametrize(
    ("written", "labels"), [({}, STANDING), ({"standing": True}, STANDING), ({"standing": False}, {})]
)
def test_targets_whose_quotas_are_meant_to_stay_say_so(written: Object, labels: dict[str, str]) -> None:
    """Else ReplicationThrottleLeftBehind takes the quotas that the chart begins with for forgotten ones."""
    text = render({"brokers": brokers(2), "podMonitor": {"create": True, **written}}).stdout
    (monitor,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "PodMonitor")
    jsonschema.validate(monitor, OPERATORS["PodMonitor"])
    assert relabelled(monitor) == {"cluster": "kafka", **labels}


def test_the_dashboard_and_the_rules_are_the_projects() -> None:
    wanted = {"dashboard": {"create": True}, "prometheusRule": {"create": True, "runbookUrl": "https://wiki.example/x"}}
    found = list(yaml.safe_load_all(render({"brokers": brokers(2), **wanted}).stdout))
    (dashboard,) = (each for each in found if each["metadata"]["name"] == "throttle-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = dashboard["data"].values()
    written = (CHART.parent / "grafana" / "kafka-throttle-sidecar.json").read_text()
    assert json.loads(text) == json.loads(written.replace("docs/runbooks.md#", "https://wiki.example/x#"))
    (rules,) = (each for each in found if each["kind"] == "PrometheusRule")
    jsonschema.validate(rules, OPERATORS["PrometheusRule"])
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert alerts
    assert all(rule["annotations"]["runbook_url"].startswith("https://wiki.example/x#") for rule in alerts)


@pytest.mark.parametrize(
    ("written", "selected"),
    [
        (None, {"matchLabels": {"app.kubernetes.io/name": "kafka"}}),
        ({"matchLabels": {"app": "my-kafka"}}, {"matchLabels": {"app": "my-kafka"}}),
        (
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["my-kafka"]}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["my-kafka"]}]},
        ),
    ],
    ids=str,
)
def test_a_selector_of_ones_own_takes_the_place_of_the_charts(written: Object | None, selected: Object) -> None:
    """Helm merges maps: a default in values.yaml would stay beside the label that somebody writes, and pods that have
    that label alone would neither be scraped nor be behind the policy."""
    values = {"brokers": brokers(2), "networkPolicy": {"create": True}, "podMonitor": {"create": True}}
    text = render({**values, "podSelector": written} if written else values).stdout
    found = {each["kind"]: each["spec"] for each in yaml.safe_load_all(text) if "spec" in each}
    assert found["PodMonitor"]["selector"] == selected
    assert found["NetworkPolicy"]["podSelector"] == selected
    assert found["NetworkPolicy"]["ingress"][0]["from"] == [{"podSelector": selected}]


@pytest.mark.parametrize(
    ("more", "ports"),
    [
        ({}, [[9092], [9404]]),
        ({"networkPolicy": {"scrapers": []}}, [[9092]]),
        ({"networkPolicy": {"scrapers": [], "also": [{"ports": [{"port": 9094}]}]}}, [[9092], [9094]]),
        (
            {"networkPolicy": {"scrapers": []}, "ingress": {"enabled": False}, "egress": {"mode": "transparent"}},
            [],
        ),
    ],
    ids=str,
)
def test_without_scrapers_nobody_is_let_in_to_the_metrics(more: Object, ports: list[list[int]]) -> None:
    """To Kubernetes an empty list of who may come means everybody."""
    values = {"brokers": brokers(2), **more, "networkPolicy": {"create": True, **more.get("networkPolicy", {})}}
    (policy,) = (each for each in yaml.safe_load_all(render(values).stdout) if each["kind"] == "NetworkPolicy")
    kubernetes_validate.validate(policy, KUBERNETES_VERSION, strict=True)
    assert [[port["port"] for port in rule["ports"]] for rule in policy["spec"]["ingress"]] == ports
    assert all(rule.get("from", ["anybody, as written"]) for rule in policy["spec"]["ingress"])
