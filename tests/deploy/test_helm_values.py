"""The chart's values: which are refused and with what words, and that its README has all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from proxy.quotas.reading import parse_quotas

from .helm_cases import CHART, brokers, render

Object = dict[str, Any]


WHOLE = {"settings", "resources", "podSelector", "dashboard.labels"}
"""Values that are maps of the user's own."""


def flat(table: Object, within: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        path = f"{within}{key}"
        found |= flat(value, f"{path}.") if isinstance(value, dict) and value and path not in WHOLE else {path: value}
    return found


def test_the_readme_has_every_value_and_its_default() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \|", (CHART / "README.md").read_text("utf-8"), re.MULTILINE)
    values = flat(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))
    assert [key for key, _ in rows] == list(values)
    for key, told in rows:
        if told.startswith("`") and key not in WHOLE:
            assert yaml.safe_load(told.strip("`")) == values[key], key


def good_quotas() -> list[str]:
    """Every quotas.toml that the documents show, and the examples'."""
    root = CHART.parents[1]
    pages = "".join((root / "docs" / page).read_text("utf-8") for page in ("quotas.md", "client-quotas.md"))
    shown = re.findall(r"```toml\n(.*?)```", pages, re.DOTALL)
    texts = [*shown, (root / "examples" / "quotas.toml").read_text("utf-8")]
    for text in texts:
        parse_quotas(text.encode())
    assert len(texts) > 4
    return texts


@pytest.mark.parametrize("number", range(len(good_quotas())))
def test_quotas_that_a_sidecar_takes_are_rendered(number: int) -> None:
    """What looks over them line by line must not know less than the sidecar."""
    text = good_quotas()[number]
    done = render({"brokers": brokers(2), "quotas": {"initial": text}})
    assert done.returncode == 0, f"{done.stderr}\n{text}"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "/brokers"),
        ({"brokers": [{"id": 1, "pod": "kafka-0"}]}, "/brokers/0"),
        ({"brokers": [{**brokers(1)[0], "id": "one"}]}, "/brokers/0/id"),
        ({"brokers": [*brokers(1), {**brokers(2)[1], "id": 0}]}, "brokers[1].id: 0 is brokers[0]'s already"),
        (
            {"brokers": [{**each, "id": 1_000_000} for each in brokers(2)]},
            "brokers[1].id: 1000000 is brokers[0]'s already",
        ),
        ({"brokers": [*brokers(1), {**brokers(2)[1], "pod": "kafka-0"}]}, "brokers[1].pod: kafka-0 is brokers[0]'s"),
        ({"brokers": [{**brokers(1)[0], "address": "kafka-0.kafka"}]}, "brokers[0].address: expected another name"),
        ({"brokers": brokers(1)}, "brokers: expected two at least"),
        ({"egress": {"mode": "sideways"}}, "/egress/mode"),
        ({"egress": {"prot": 1}}, "prot"),
        ({"egress": {"enabled": False}, "ingress": {"enabled": False}}, "expected one of them at least"),
        ({"ingress": {"enabled": False}}, "egress.mode: expected transparent without ingress.enabled"),
        ({"webhook": {"create": False}}, "webhook: the admission webhook is gone; injection.engine adds the sidecar"),
        ({"injection": {"engine": "webhook"}}, "/injection/engine"),
        (
            {"http": {"port": 9092}},
            "http.port: expected another port than ingress.port, which is listened on in the same",
        ),
        ({"ingress": {"brokerPort": 9092}}, "ingress.brokerPort: expected another port than ingress.port"),
        ({"http": {"port": 19092}}, "http.port: expected another port than ingress.brokerPort"),
        (
            {"egress": {"mode": "transparent", "redirectPort": 9092}},
            "egress.redirectPort: expected another port than ingress.port",
        ),
        ({"http": {"port": 9095}, "egress": {"port": 9095}}, "http.port: expected another port than egress.port"),
        (
            {"settings": {"ingress.tls.listen.ssl.keystore.password": "secret"}},
            "settings.ingress.tls.listen.ssl.keystore.password: expected the password by a mounted file",
        ),
        ({"settings": {"names.sasl.jaas.config": "secret"}}, "settings.names.sasl.jaas.config: expected the password"),
        ({"settings": {"drain": "10s"}}, "drain"),
        ({"settings": {"limits.dran": "5s"}}, "limits.dran"),
        ({"settings": {"limits.drain": "5"}}, "limits.drain"),
        ({"settings": {"limits.max_memory": "448mb"}}, "limits.max_memory"),
        ({"settings": {"limits.max_connections": -1}}, "limits.max_connections"),
        ({"settings": {"log.level": "verbose"}}, "log.level"),
        ({"settings": {"http.reload": "yes"}}, "http.reload"),
        ({"settings": {"http.tls.ssl.keystore.lokation": "/a"}}, "ssl.keystore.lokation"),
        ({"quotas": {"initial": "x"}}, 'quotas.initial: expected lines of TOML (docs/quotas.md), found "x"'),
        ({"quotas": {"initial": "[broker.default]\n"}}, "quotas.initial: [broker.default]: unknown table"),
        (
            {"quotas": {"initial": "[brokers.default]\nleader.replication.throttled.rates = 1\n"}},
            "quotas.initial: brokers.default.leader.replication.throttled.rates: unknown key",
        ),
        ({"quotas": {"initial": "[mode]\nenforced = false\n"}}, "quotas.initial: mode.enforced: unknown key"),
        ({"quotas": {"initial": "[listener]\nbyte_rate = 1\n"}}, "quotas.initial: listener.byte_rate: unknown key"),
        (
            {"quotas": {"initial": "[users.alice.clients.etl]\nconsumer_byte_rate = '5mb'\n"}},
            "quotas.initial: users.alice.clients.etl.consumer_byte_rate: expected bytes per second",
        ),
        (
            {"quotas": {"initial": "[brokers.1]\nleader.replication.throttled.rate = 50MiB/s\n"}},
            "quotas.initial: brokers.1.leader.replication.throttled.rate: expected bytes per second",
        ),
        (
            {"quotas": {"initial": "[brokers.1]\nleader.replication.throttled.rate = '50mb'\n"}},
            'expected bytes per second as an integer or text like "50MiB/s", or "unlimited", found \'50mb\'',
        ),
        (
            {"settings": {"http.tls.ssl.client.auth": "required"}},
            "settings.http.tls.ssl.client.auth: expected none or requested, since the kubelet's probes show no certif",
        ),
        ({"settings": {"http.tls.ssl.client.auth": '"required"'}}, "found required"),
        (
            {"settings": {"http.listen": "0.0.0.0:9405"}},
            "settings.http.listen: expected a key that the chart does not write itself; say http.port",
        ),
        ({"settings": {"http.require_token": True}}, "require_token: expected http.tokenSecretName beside it"),
        ({"ipFamily": "IPv5"}, "/ipFamily"),
        ({"settings": {"ingress.listen": "0.0.0.0:9092"}}, "itself; say ingress.port"),
        ({"settings": {"quotas.file": "/etc/quotas.toml"}}, "itself; say quotas.initial"),
        ({"settings": {"quotas.state": "/tmp/quotas"}}, "itself; say quotas.stateVolume"),
        (
            {"settings": {"control.directory": "/tmp/control"}},
            "settings.control.directory: expected a key",
        ),
        ({"quotas": {"stateVolume": "My Volume"}}, "/quotas/stateVolume"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"podMonitor": {"create": "perhaps"}}, "/podMonitor/create"),
        ({"quota": {}}, "quota"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_with_their_place(wrong: Object, told: str) -> None:
    values = wrong if wrong == {} or "brokers" in wrong else {"brokers": brokers(2), **wrong}
    done = render(values)
    assert done.returncode != 0
    assert told in done.stderr, done.stderr
