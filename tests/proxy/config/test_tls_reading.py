from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from proxy.config.settings import load_settings
from proxy.config.tls_settings import ClientAuth, LegSettings, RoleTls, Secret, StoreSettings, StoreType
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

BOTH = """
[ingress.tls.listen]
ssl.keystore.location = "own.pem"
ssl.truststore.location = "/etc/ca.pem"
ssl.client.auth = "required"
ssl.enabled.protocols = "TLSv1.2, TLSv1.3"
[ingress.tls.upstream]
ssl.keystore.type = "PKCS12"
ssl.keystore.location = "own.p12"
ssl.keystore.password.file = "password"
ssl.truststore.location = "ca.pem"
ssl.endpoint.identification.algorithm = ""
server_name = "kafka-101"
"""


def ingress(home: Path, tables: str, *, upstream: str = "127.0.0.1:19092", listen: str = "0.0.0.0:9092") -> RoleTls:
    path = home / "proxy.toml"
    path.write_text(f'[broker]\nid = 101\n[ingress]\nlisten = "{listen}"\nupstream = "{upstream}"\n{tables}')
    found = load_settings(path).ingress
    assert found is not None
    return found.tls


def test_each_leg_has_its_own(tmp_path: Path) -> None:
    found = ingress(tmp_path, BOTH)
    assert found.listen == LegSettings(
        "ingress.listen",
        (StoreSettings(tmp_path / "own.pem"),),
        StoreSettings(tmp_path.root / tmp_path.__class__("/etc/ca.pem")),
        ClientAuth.REQUIRED,
    )
    assert found.upstream == LegSettings(
        "ingress.upstream",
        (StoreSettings(tmp_path / "own.p12", StoreType.PKCS12, Secret(file=tmp_path / "password")),),
        StoreSettings(tmp_path / "ca.pem"),
        verifies_names=False,
    )
    assert found.server_name == "kafka-101"
    assert found.upstream.files == (tmp_path / "own.p12", tmp_path / "password", tmp_path / "ca.pem")


def test_without_tables_everything_is_plaintext(tmp_path: Path) -> None:
    assert ingress(tmp_path, "") == RoleTls()


@pytest.mark.parametrize("upstream", ["127.0.0.1:19092", "[::1]:19092", "localhost:19092"])
def test_plaintext_to_the_broker_beside_needs_no_word(tmp_path: Path, upstream: str) -> None:
    tables = '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
    found = ingress(tmp_path, tables, upstream=upstream)
    assert found.listen is not None
    assert found.upstream is None


def test_plaintext_across_a_network_needs_one(tmp_path: Path) -> None:
    tables = '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
    with pytest.raises(ConfigurationError, match=r"ingress\.tls\.upstream: missing, and plaintext with kafka-101"):
        ingress(tmp_path, tables, upstream="kafka-101:9092")
    said = tables + '[ingress.tls.upstream]\nsecurity.protocol = "PLAINTEXT"\n'
    assert ingress(tmp_path, said, upstream="kafka-101:9092").upstream is None
    with pytest.raises(ConfigurationError, match=r"ingress\.tls\.listen: missing, and plaintext with any client"):
        ingress(tmp_path, '[ingress.tls.upstream]\nssl.truststore.location = "ca.pem"\n')


def test_a_principal_is_lent_to_nobody_by_accident(tmp_path: Path) -> None:
    tables = (
        '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n{auth}'
        '[ingress.tls.upstream]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
    )
    with pytest.raises(ConfigurationError, match=r"ingress\.tls\.listen\.ssl\.client\.auth: missing, so any client"):
        ingress(tmp_path, tables.format(auth=""))
    assert ingress(tmp_path, tables.format(auth=""), listen="127.0.0.1:9092").lends_its_name
    for auth, lends in (("required", False), ("requested", True), ("none", True)):
        found = ingress(tmp_path, tables.format(auth=f'ssl.client.auth = "{auth}"\n'))
        assert found.lends_its_name is lends


def test_names_are_allowed_to_who_has_to_have_one(tmp_path: Path) -> None:
    tables = (
        '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
        'allowed_names = ["kafka-*", "10.0.0.1"]\nssl.client.auth = "{auth}"\n'
    )
    found = ingress(tmp_path, tables.format(auth="required")).listen
    assert found is not None
    assert found.allowed_names == ("kafka-*", "10.0.0.1")
    with pytest.raises(
        ConfigurationError, match=r"ingress\.tls\.listen\.allowed_names: names .*: set ssl\.client\.auth"
    ):
        ingress(tmp_path, tables.format(auth="requested"))


def test_versions_and_several_certificates(tmp_path: Path) -> None:
    found = ingress(
        tmp_path,
        '[ingress.tls.listen]\nssl.keystore.location = ["a.pem", "b.pem"]\nssl.enabled.protocols = ["TLSv1.3"]\n',
    ).listen
    assert found is not None
    assert [store.location.name for store in found.keystores] == ["a.pem", "b.pem"]
    assert found.minimum == found.maximum == ssl.TLSVersion.TLSv1_3


def test_a_password_may_come_from_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(f'[broker]\nid = 101\n[ingress]\nlisten = "0.0.0.0:1"\nupstream = "127.0.0.1:2"\n{BOTH}')
    key = "THROTTLE_INGRESS__TLS__LISTEN__SSL__KEYSTORE__PASSWORD"
    settings = load_settings(path, environ={key: "sesame"})
    assert settings.ingress is not None
    assert settings.ingress.tls.listen is not None
    assert settings.ingress.tls.listen.keystores[0].password == Secret("sesame")
    assert "sesame" not in repr(settings)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('ssl.keystore.locatoin = "a"', r"ssl\.keystore\.locatoin: unknown key.*did you mean ssl\.keystore\.location"),
        ('ssl.client.auth = "always"', "ssl.client.auth: expected none or requested or required"),
        ('ssl.client.auth = "required"', "ssl.truststore.location: missing"),
        ('ssl.keystore.type = "JKS"', "expected PEM or PKCS12, found.*keytool -importkeystore"),
        ('ssl.enabled.protocols = "TLSv1.1"', "ssl.enabled.protocols: expected TLSv1.2 or TLSv1.3"),
        ('ssl.cipher.suites = "RC4"', "ssl.cipher.suites: expected suites of"),
        ("ssl.keystore.password = 7", "ssl.keystore.password: expected text \\(line \\d+\\)$"),
        ('security.protocol = "SASL_SSL"', "security.protocol: expected SSL or PLAINTEXT"),
        ('security.protocol = "PLAINTEXT"', "has no meaning beside security.protocol"),
        ('ssl.endpoint.identification.algorithm = ""', "unknown key"),
        ('server_name = "kafka"', "unknown key"),
        ("ssl.keystore.type = []", "ssl.keystore.type: expected text"),
        ('ssl.keystore.type = "PKCS12"\nssl.key.location = "key"', "ssl.key.location: has no meaning beside .*PKCS12"),
        ('ssl.keystore.password = "a"\n"ssl.keystore.password.file" = "b"', "ssl.keystore.password: expected either"),
        ("allowed_names = []", "allowed_names: expected one name at least, found none"),
        ('allowed_names = " , "', "allowed_names: expected one name at least, found none"),
    ],
)
def test_what_is_not_understood_is_a_problem_by_its_key(tmp_path: Path, lines: str, message: str) -> None:
    tables = f'[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n{lines}\n'
    with pytest.raises(ConfigurationError, match=r"ingress\.tls\.listen\.") as raised:
        ingress(tmp_path, tables)
    assert any(__import__("re").search(message, problem) for problem in raised.value.problems)


@pytest.mark.parametrize("name", ["*.kafka", "kafka 101", "https://kafka", ""])
def test_a_server_name_is_one_name(tmp_path: Path, name: str) -> None:
    tables = f'[ingress.tls.listen]\nssl.keystore.location = "a"\n[ingress.tls.upstream]\nserver_name = "{name}"\n'
    with pytest.raises(ConfigurationError, match=r"ingress\.tls\.upstream\.server_name: expected"):
        ingress(tmp_path, tables)


@pytest.mark.parametrize("name", ["kafka-101", "10.0.0.1", "fd00::1"])
def test_an_address_is_a_server_name_too(tmp_path: Path, name: str) -> None:
    tables = BOTH.replace('server_name = "kafka-101"', f'server_name = "{name}"')
    assert ingress(tmp_path, tables).server_name == name


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("[ingress.tls.listen]\n", "ssl.keystore.location: missing: who dials has to be shown"),
        ("[ingress.tls.upstream]\n", "ssl.truststore.location: missing"),
        ("[ingress.tls.lisen]\n", "ingress.tls.lisen: unknown key; expected one of listen, upstream .did you mean"),
        ("[ingress.tls]\nlisten = 1\n", "ingress.tls.listen: expected a table, found 1"),
    ],
)
def test_a_leg_is_whole(tmp_path: Path, tables: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ingress(tmp_path, tables)


def test_peers_have_names_that_certificates_have(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        '[broker]\nid = 101\n[egress]\n[[egress.peers]]\nbroker = 102\nlisten = "127.0.0.2:9092"\n'
        'upstream = "10.0.0.2:9092"\nserver_name = "kafka-102"\n[[egress.peers]]\nbroker = 103\n'
        'listen = "127.0.0.3:9092"\nupstream = "kafka-103:9092"\n'
    )
    egress = load_settings(path).egress
    assert egress is not None
    assert [peer.server_name for peer in egress.peers] == ["kafka-102", "kafka-103"]


def test_a_dot_at_the_end_of_a_host_is_in_no_certificate(tmp_path: Path) -> None:
    """It keeps the name lookup from trying domains (`kafka-102.example.com.:9092`); TLS knows no such names."""
    path = tmp_path / "proxy.toml"
    path.write_text(
        '[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:9092"\nupstream = "kafka-101.example.com.:9092"\n'
        '[[egress.peers]]\nbroker = 102\nlisten = "127.0.0.2:9092"\nupstream = "kafka-102.example.com.:9092"\n'
    )
    settings = load_settings(path)
    assert settings.ingress is not None
    assert settings.egress is not None
    assert settings.ingress.server_name == "kafka-101.example.com"
    assert settings.ingress.upstream.host == "kafka-101.example.com."
    assert [peer.server_name for peer in settings.egress.peers] == ["kafka-102.example.com"]
