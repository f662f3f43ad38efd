from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import ssl
import stat
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from lab.brokers.authority import Authority

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_what_is_issued_is_signed_and_names_everybody(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    path = authority.issue("broker.pem", ["kafka-101", "127.0.0.1"], common_name="broker-101")
    issued, own = read(path), read(authority.certificate)
    issued.verify_directly_issued_by(own)
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kafka-101"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert issued.subject.rfc4514_string() == "CN=broker-101"
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_key_stands_beside_its_own_certificate_and_is_for_us_alone(tmp_path: Path) -> None:
    path = Authority(tmp_path / "tls").issue("broker.pem", ["kafka-101"])
    assert load_pem_private_key(path.read_bytes(), None).public_key() == read(path).public_key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_issued_again_has_another_key_and_takes_the_files_place(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    path = authority.issue("broker.pem", ["kafka-101"])
    before, inode = read(path), path.stat().st_ino
    assert authority.issue("broker.pem", ["kafka-101"]) == path
    assert read(path).serial_number != before.serial_number
    assert read(path).public_key() != before.public_key()
    assert path.stat().st_ino != inode


def test_strict_peers_take_what_is_issued(tmp_path: Path) -> None:
    """Python is strict from 3.13 on (RFC 5280): it wants identifiers of keys, and an authority whose key may sign."""
    authority = Authority(tmp_path / "tls")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("broker.pem", ["kafka-101"]))
    client = ssl.create_default_context(cafile=authority.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="kafka-101"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert ends[0].getpeercert()


def test_a_certificate_may_have_expired_already(tmp_path: Path) -> None:
    expired = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    issued = read(Authority(tmp_path / "tls").issue("old.pem", ["kafka-101"], expires=expired))
    assert issued.not_valid_before_utc < issued.not_valid_after_utc < dt.datetime.now(dt.UTC)
