from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from proxy.config.tls_settings import Secret, StoreSettings, StoreType
from proxy.errors import ConfigurationError
from proxy.tls.contexts import load
from proxy.tls.identity import read_authorities, read_identity

from .stage import NAME, X400_NAME, Keys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "tls")


def parts(keys: Keys) -> tuple[object, x509.Certificate, x509.Certificate]:
    content = keys.own.read_bytes()
    authority = x509.load_pem_x509_certificate(keys.authority.certificate.read_bytes())
    return load_pem_private_key(content, None), x509.load_pem_x509_certificate(content), authority


def pkcs12_store(keys: Keys, password: bytes) -> Path:
    key, own, authority = parts(keys)
    path = keys.home / "own.p12"
    encrypted = BestAvailableEncryption(password)
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, own, [authority], encrypted))
    return path


def test_a_pem_file_with_its_key(keys: Keys) -> None:
    found = read_identity(StoreSettings(keys.own))
    assert found.names == (NAME,)
    assert found.suits(NAME)
    assert "PRIVATE" not in repr(found)


def test_key_and_certificate_in_files_of_their_own(keys: Keys) -> None:
    key, own, _ = parts(keys)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    (keys.home / "tls.key").write_bytes(secret)
    (keys.home / "tls.crt").write_bytes(own.public_bytes(Encoding.PEM))
    (keys.home / "password").write_text("open\n")
    store = StoreSettings(keys.home / "tls.crt", password=Secret("open"), key=keys.home / "tls.key")
    assert read_identity(store).names == (NAME,)
    by_file = StoreSettings(keys.home / "tls.crt", password=Secret(file=keys.home / "password"), key=store.key)
    assert read_identity(by_file).names == (NAME,)
    assert keys.home / "password" in by_file.files


def test_a_password_need_not_be_utf_8(keys: Keys) -> None:
    """Python makes lone surrogates of such bytes in the environment."""
    store = StoreSettings(keys.own, password=Secret("ge\udcffheim"))
    assert read_identity(store).names == (NAME,)
    with pytest.raises(ConfigurationError, match="that its password opens") as raised:
        read_authorities(StoreSettings(pkcs12_store(keys, b"open"), StoreType.PKCS12, store.password))
    assert "heim" not in str(raised.value)


def test_the_file_that_is_wrong_is_named(keys: Keys) -> None:
    """Of a key and its certificate, and of several certificates for one leg."""
    (keys.home / "tls.key").write_text("no key")
    with pytest.raises(ConfigurationError, match=r"tls\.key: expected PEM"):
        read_identity(StoreSettings(keys.own, key=keys.home / "tls.key"))
    key, own, _ = parts(keys)
    weak = rsa.generate_private_key(65537, 1024)
    builder = x509.CertificateBuilder(
        own.issuer, own.subject, weak.public_key(), 1, own.not_valid_before_utc, own.not_valid_after_utc
    )
    content = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    (keys.home / "weak.pem").write_bytes(
        weak.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + content
    )
    with pytest.raises(ConfigurationError, match=r"weak\.pem: OpenSSL refuses it: EE_KEY_TOO_SMALL"):
        load(keys.listen(keystores=(StoreSettings(keys.own), StoreSettings(keys.home / "weak.pem"))))


def test_a_password_for_a_key_that_needs_none_does_no_harm(keys: Keys) -> None:
    assert read_identity(StoreSettings(keys.own, password=Secret("any"))).names == (NAME,)


def test_pkcs12_holds_both_and_the_authority(keys: Keys) -> None:
    store = StoreSettings(pkcs12_store(keys, b"open"), StoreType.PKCS12, Secret("open"))
    assert read_identity(store).names == (NAME,)
    assert "BEGIN CERTIFICATE" in read_authorities(store).pem
    leg = keys.listen(keystores=(store,))
    assert set(load(leg).expires) == {"keystore", "truststore"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda keys: StoreSettings(keys.home / "none.pem"), "none.pem: cannot be read: No such file"),
        (lambda keys: StoreSettings(keys.home), "expected a file, found a directory"),
        (lambda keys: StoreSettings(keys.authority.certificate), "ca.pem: expected PEM"),
        (lambda keys: StoreSettings(pkcs12_store(keys, b"open")), r"own.p12: expected PEM \(or ssl.keystore.type"),
        (
            lambda keys: StoreSettings(pkcs12_store(keys, b"open"), StoreType.PKCS12, Secret("sesame")),
            "expected a PKCS12 store that its password opens",
        ),
        (lambda keys: StoreSettings(keys.own, StoreType.PKCS12), "expected a PKCS12 store"),
        (
            lambda keys: StoreSettings(keys.own, key=keys.authority.issue("other.pem", [NAME])),
            "the key does not belong to the first certificate",
        ),
    ],
)
def test_what_is_wrong_is_said_by_file_and_without_a_secret(keys: Keys, change: object, message: str) -> None:
    store = change(keys)
    with pytest.raises(ConfigurationError, match=message) as raised:
        read_identity(store)
    assert "sesame" not in str(raised.value)
    assert "PRIVATE" not in str(raised.value)


def test_a_certificate_that_can_be_read_in_part_is_refused(keys: Keys) -> None:
    """Its key and its names are looked at last, and what is wrong with them is no other kind of error."""
    odd = keys.issue_with("odd.pem", [X400_NAME])
    with pytest.raises(ConfigurationError, match=r"odd\.pem: expected PEM .*x400Address"):
        read_identity(StoreSettings(odd))
    key, own, _ = parts(keys)
    of_no_curve = own.public_bytes(Encoding.DER).replace(
        bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d03017f")
    )
    odd.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + ssl.DER_cert_to_PEM_cert(of_no_curve).encode()
    )
    with pytest.raises(ConfigurationError, match=r"odd\.pem: expected PEM .*Curve"):
        read_identity(StoreSettings(odd))


def test_an_encrypted_key_needs_its_password(keys: Keys) -> None:
    key, own, _ = parts(keys)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    path = keys.home / "encrypted.pem"
    path.write_bytes(secret + own.public_bytes(Encoding.PEM))
    for password in (None, Secret("wrong")):
        with pytest.raises(ConfigurationError, match=r"encrypted\.pem"):
            read_identity(StoreSettings(path, password=password))


def test_authorities_without_a_certificate_are_none(keys: Keys) -> None:
    (keys.home / "empty.pem").write_text("")
    with pytest.raises(ConfigurationError, match=r"empty\.pem"):
        read_authorities(StoreSettings(keys.home / "empty.pem"))
    _, own, _ = parts(keys)
    empty = pkcs12.serialize_key_and_certificates(None, parts(keys)[0], own, None, NoEncryption())
    (keys.home / "some.p12").write_bytes(empty)
    assert read_authorities(StoreSettings(keys.home / "some.p12", StoreType.PKCS12)).expires > 0


@pytest.mark.parametrize(
    ("names", "asked", "suits"),
    [
        (["kafka-101"], "kafka-101", True),
        (["kafka-101"], "KAFKA-101.", True),
        (["kafka-101"], "kafka-102", False),
        (["*.kafka.svc"], "b-1.kafka.svc", True),
        (["*.kafka.svc"], "kafka.svc", False),
        (["*.kafka.svc"], "a.b-1.kafka.svc", False),
        (["10.0.0.1"], "10.0.0.1", True),
        (["10.0.0.1", "kafka"], "10.0.0.2", False),
    ],
)
def test_names_are_compared_as_java_does(keys: Keys, names: list[str], asked: str, *, suits: bool) -> None:
    path = keys.authority.issue("named.pem", names)
    assert read_identity(StoreSettings(path)).suits(asked) is suits
