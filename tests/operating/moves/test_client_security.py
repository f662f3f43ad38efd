"""Files and mechanisms that a client cannot begin with are told at once, by the key that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.authority import Authority
from operating.moves.client_properties import usable_client_properties
from proxy.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = 'sasl.jaas.config=x required username="ana" password="geheim";'


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines).replace("$", str(tmp_path)))
    return path


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """ca.pem; own.pem, a certificate and its key; no.pem, neither."""
    Authority(tmp_path).issue("own.pem", ["ana"])
    (tmp_path / "no.pem").write_text("hello")
    return tmp_path


@pytest.mark.parametrize(
    "lines",
    [
        ["security.protocol=ssl", "ssl.ca.location=$/ca.pem"],
        ["security.protocol=SSL", "ssl.certificate.location=$/own.pem"],
        ["security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512", LOGIN],
        # Of what is not spoken nothing is read, as with Kafka's own tools.
        ["ssl.ca.location=$/gone.pem", "sasl.mechanism=no"],
    ],
)
def test_what_can_be_used_is(tls: Path, lines: list[str]) -> None:
    assert usable_client_properties(written(tls, *lines))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["security.protocol=SSL", "ssl.ca.location=$/gone.pem"],
         "ssl.ca.location: $/gone.pem: expected certificates of authorities as PEM: No such file or directory"),
        (["security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=$/no.pem"],
         "ssl.truststore.location: $/no.pem: expected certificates of authorities as PEM: NO_CERTIFICATE"),
        (["security.protocol=SSL", "ssl.ca.location=$"], "ssl.ca.location: $: expected certificates of authorities"),
        (["security.protocol=SSL", "ssl.certificate.location=$/gone.pem"],
         "ssl.certificate.location: $/gone.pem: expected a certificate and its key as PEM"),
        (["security.protocol=SSL", "ssl.certificate.location=$/own.pem", "ssl.key.location=$/no.pem",
          "ssl.key.password=geheim"],
         "ssl.certificate.location, ssl.key.location: $/own.pem, $/no.pem: expected a certificate and its key as PEM"),
        (["security.protocol=TLS"],
         'security.protocol: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, found "TLS"'),
        (["security.protocol=SASL_SSL", LOGIN], "sasl.mechanism: missing, and security.protocol asks for SASL"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=SCRAM"],
         "sasl.mechanism: expected one of PLAIN, SCRAM-SHA-256"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.username=ana"],
         'sasl.jaas.config: expected username="…" and password="…", which PLAIN needs'),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_and_is_no_matter_of_brokers(tls: Path, lines: list[str], problem: str) -> None:
    path = written(tls, *lines)
    with pytest.raises(ConfigurationError) as error:
        usable_client_properties(path)
    assert str(error.value).startswith(f"{path}: {problem.replace('$', str(tls))}")
    assert not isinstance(error.value, ClusterError)
    assert "geheim" not in str(error.value)


def test_a_mechanism_whose_package_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operating.moves.client_security.importlib.util.find_spec", lambda _: None)
    path = written(tmp_path, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI")
    with pytest.raises(
        ConfigurationError, match=r"sasl\.mechanism: GSSAPI needs the package gssapi: pip install gssapi"
    ):
        usable_client_properties(path)
