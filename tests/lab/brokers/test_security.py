from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from lab.brokers.kraft import kraft_properties
from lab.brokers.releases import release
from lab.brokers.security import Keys, Security, secured
from lab.brokers.zookeeper import zookeeper_properties
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.host.addresses import Addresses

if TYPE_CHECKING:
    from pathlib import Path

PLAN = Addresses("127.31.7", (101, 102))


def properties(security: Security, home: Path, *, broker: int = 102, kraft: bool = True) -> dict[str, str]:
    plain = (
        kraft_properties(PLAN, broker)
        if kraft
        else zookeeper_properties(PLAN, broker, protocol="2.8", message_format="2.8")
    )
    return secured(plain, security, name=PLAN.name(broker), keys=Keys(home / "tls", PLAN), broker=broker)


@pytest.mark.parametrize("security", [Security.PLAINTEXT, Security.TLS_BETWEEN])
def test_brokers_that_speak_plaintext_are_told_nothing(tmp_path: Path, security: Security) -> None:
    assert properties(security, tmp_path) == kraft_properties(PLAN, 102)
    assert security.port == 9092


@pytest.mark.parametrize("kraft", [True, False])
@pytest.mark.parametrize(
    ("security", "protocol", "client_auth"),
    [
        (Security.MTLS, "SSL", "required"),
        (Security.SASL_SSL, "SASL_SSL", "none"),
        (Security.SASL_PLAINTEXT, "SASL_PLAINTEXT", None),
        (Security.OAUTHBEARER, "SASL_PLAINTEXT", None),
    ],
)
def test_replication_has_a_listener_of_its_own(
    tmp_path: Path, security: Security, protocol: str, client_auth: str | None, *, kraft: bool
) -> None:
    found = properties(security, tmp_path, kraft=kraft)
    assert found["listeners"] == f"{protocol}://kafka-102:9091,PLAINTEXT://kafka-102:9092"
    assert found["advertised.listeners"] == found["listeners"]
    assert found["security.inter.broker.protocol"] == protocol
    assert found.get("ssl.client.auth") == client_auth
    assert f"{protocol}:{protocol}" in found.get("listener.security.protocol.map", f"{protocol}:{protocol}")


def test_brokers_that_encrypt_have_the_compiler_that_knows_aes() -> None:
    assert {each for each in Security if each.jvm_options} == {Security.MTLS, Security.SASL_SSL}


def test_sasl_has_its_mechanism_and_its_module(tmp_path: Path) -> None:
    found = properties(Security.SASL_SSL, tmp_path)
    assert found["sasl.mechanism.inter.broker.protocol"] == found["sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert "ScramLoginModule" in found["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"]
    assert Security.SASL_SSL.scram == ("SCRAM-SHA-512", "broker", "brokers-secret")
    assert Security.SASL_PLAINTEXT.scram is None


def test_everybody_presents_the_names_that_they_are_dialled_by(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "tls", Addresses("127.31.7", (101, 102, 103)))
    expected = {keys.ingress(101): ["kafka-101"], keys.egress(101): ["kafka-102", "kafka-103"]}
    for path, names in expected.items():
        decoded = ssl._ssl._test_decode_cert(str(path))
        assert [name for _, name in decoded["subjectAltName"]] == names


def test_all_are_renewed_in_place(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "tls", PLAN)
    paths = [keys.broker(101), keys.ingress(101), keys.tap()]
    before, authority = [path.read_bytes() for path in paths], keys.authority.certificate.read_bytes()
    keys.renew()
    assert all(path.read_bytes() != old for path, old in zip(paths, before, strict=True))
    assert keys.authority.certificate.read_bytes() == authority


def test_a_cluster_says_what_it_cannot_secure() -> None:
    with pytest.raises(LabError, match=r"1\.0\.2 reads no keys of PEM files"):
        ClusterPlan(release=release(kafka="1.0.2"), security=Security.MTLS)
    with pytest.raises(LabError, match="takes sidecars"):
        ClusterPlan(security=Security.TLS_BETWEEN)
