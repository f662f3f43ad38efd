"""Stores of every kind, tried in a handshake with a server that wants a certificate."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from lab.brokers.authority import Authority
from operating.client.security import tls_context
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

ENCRYPTED = serialization.BestAvailableEncryption(b"geheim")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem and own.pem; the same as PKCS12 (trust.jks, own.p12) and encrypted; no.pem, neither."""
    home = tmp_path_factory.mktemp("stores")
    own = Authority(home).issue("own.pem", ["ana"]).read_bytes()
    key, certificate = load_pem_private_key(own, None), x509.load_pem_x509_certificate(own)
    authority = x509.load_pem_x509_certificate((home / "ca.pem").read_bytes())
    trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
    (home / "trust.jks").write_bytes(pkcs12.serialize_java_truststore(trusted, ENCRYPTED))
    (home / "own.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, ENCRYPTED))
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (home / "locked.key").write_bytes(key.private_bytes(pem, pkcs8, ENCRYPTED))
    (home / "own.crt").write_bytes(certificate.public_bytes(pem))
    (home / "java.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    (home / "no.pem").write_text("hello")
    return home


def properties(home: Path, *lines: str) -> dict[str, str]:
    return dict(line.replace("$", str(home)).split("=", 1) for line in lines)


def inline(path: Path, *, joined_by: str) -> str:
    """Return PEM as it is when a file of properties has its lines joined."""
    return joined_by.join(path.read_text("ascii").splitlines())


def presented(context: ssl.SSLContext, home: Path, *, host: str = "ana") -> str | None:
    """Shake hands with a server that accepts the authority's; return the subject it was shown."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(home / "own.pem")
    server.load_verify_locations(home / "ca.pem")
    server.verify_mode = ssl.CERT_OPTIONAL
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [context.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = ends[1].getpeercert()
    return certificate["subject"][0][0][1] if certificate else None


@pytest.mark.parametrize(
    "trusted",
    [
        ["ssl.ca.location=$/ca.pem"],
        ["ssl.truststore.type=PEM", "ssl.truststore.location=$/ca.pem"],
        # keytool has written PKCS12 into files of this name since Java 9, and Kafka's default type is JKS.
        ["ssl.truststore.location=$/trust.jks", "ssl.truststore.password=geheim"],
        ["ssl.truststore.type=PKCS12", "ssl.truststore.location=$/trust.jks", "ssl.truststore.password=geheim"],
        ["ssl.truststore.type=PEM", "ssl.truststore.certificates=INLINE"],
        ["ssl.ca.location=$/ca.pem", "ssl.enabled.protocols=TLSv1.2,TLSv1.1,TLSv1"],
    ],
)
@pytest.mark.parametrize(
    "own",
    [
        [],
        ["ssl.keystore.type=PEM", "ssl.keystore.location=$/own.pem"],
        ["ssl.certificate.location=$/own.crt", "ssl.key.location=$/locked.key", "ssl.key.password=geheim"],
        ["ssl.keystore.location=$/own.p12", "ssl.keystore.password=geheim", "ssl.key.password=geheim"],
        ["ssl.keystore.type=PKCS12", "ssl.keystore.location=$/own.p12", "ssl.keystore.password=geheim"],
        ["ssl.keystore.type=PEM", "ssl.keystore.certificate.chain=INLINE", "ssl.keystore.key=INLINE",
         "ssl.key.password=geheim"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("joined_by", [" ", "\n"])
def test_stores_of_every_kind_can_be_used(home: Path, trusted: list[str], own: list[str], joined_by: str) -> None:
    found = properties(home, *trusted, *own)
    files = {
        "ssl.truststore.certificates": "ca.pem",
        "ssl.keystore.certificate.chain": "own.crt",
        "ssl.keystore.key": "locked.key",
    }
    found |= {key: inline(home / files[key], joined_by=joined_by) for key in files if key in found}
    assert presented(tls_context(found), home) == ("ana" if own else None)


def test_names_are_verified_unless_the_file_says_otherwise(home: Path) -> None:
    found = properties(home, "ssl.ca.location=$/ca.pem")
    with pytest.raises(ssl.SSLCertVerificationError):
        presented(tls_context(found), home, host="ben")
    assert presented(tls_context({**found, "ssl.endpoint.identification.algorithm": ""}), home, host="ben") is None


def test_without_a_truststore_the_systems_authorities_are_believed(home: Path) -> None:
    """As Java's are; those are not this one."""
    with pytest.raises(ssl.SSLCertVerificationError):
        presented(tls_context({}), home)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["ssl.ca.location=$/gone.pem"], "ssl.ca.location: $/gone.pem: cannot be read: No such file or directory"),
        (["ssl.truststore.location=$/no.pem"],
         "ssl.truststore.location: $/no.pem: expected PEM or PKCS12: Unable to load PEM file"),
        (["ssl.ca.location=$"], "ssl.ca.location: $: cannot be read: expected a file, found a directory"),
        (["ssl.truststore.location=$/java.jks"],
         ("ssl.truststore.location: $/java.jks: expected PEM or PKCS12, found JKS, which Java alone reads: keytool "
         "-importkeystore -srckeystore $/java.jks -destkeystore $/java.jks.p12 -deststoretype PKCS12")),
        (["ssl.truststore.location=$/trust.jks", "ssl.truststore.password=geheimer"],
         "ssl.truststore.location: $/trust.jks: expected a PKCS12 store that its password opens"),
        (["ssl.certificate.location=$/own.crt", "ssl.key.location=$/locked.key"],
         "ssl.certificate.location: $/locked.key: expected PEM or PKCS12: Password was not given"),
        (["ssl.certificate.location=$/own.crt", "ssl.key.location=$/gone.key"],
         "ssl.key.location: $/gone.key: cannot be read"),
        (["ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----"],
         "ssl.keystore.certificate.chain: expected PEM from BEGIN to END; in a file of properties"),
        (["ssl.enabled.protocols=SSLv3"], 'ssl.enabled.protocols: expected TLSv1.2 or TLSv1.3, found "SSLv3"'),
        (["ssl.cipher.suites=no"], "ssl.cipher.suites: expected suites of "),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(home: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        tls_context(properties(home, *lines))
    assert str(error.value).startswith(problem.replace("$", str(home)))
    assert "geheim" not in str(error.value)
