"""A certificate authority of a cluster's own, and the files that brokers, sidecars and taps are given by it.

Knows nothing of Kafka. Invariant: a file of this folder is replaced by one rename, so that no reader sees half of a
certificate, and a key never stands beside the certificate of another key.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LIFE = dt.timedelta(days=30)
_ALLOWED_SKEW = dt.timedelta(minutes=5)
_PEM = serialization.Encoding.PEM
_SIGNS = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip
"""The usage of an authority's key, which strict peers read (RFC 5280, 4.2.1.3)."""


class Authority:
    """Keeps its own key in memory alone. Args: home: a folder of its own; name: of the authority."""

    def __init__(self, home: Path, *, name: str = "lab") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = home / "ca.pem"
        own = _unsigned(self._name, self._name, self._key, expires=_now() + _LIFE)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = own.add_extension(_SIGNS, critical=True).add_extension(_identifier(self._key), critical=False)
        self._replace(self.certificate, own.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(
        self,
        file: str,
        names: Iterable[str],
        *,
        common_name: str | None = None,
        expires: dt.datetime | None = None,
    ) -> Path:
        """Write (again) one PEM file with a fresh key and the certificate for it.

        Args:
            file: its name in the authority's folder.
            names: host names and IP addresses that the certificate is valid for.
            common_name: of the subject, which is a broker's principal; None: the first of the names.
            expires: None: in a month.
        """
        wanted = list(names)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _unsigned(
            _named(common_name or wanted[0]), self._name, key, expires=expires or _now() + _LIFE
        ).add_extension(x509.SubjectAlternativeName([_general_name(name) for name in wanted]), critical=False)
        # A broker is both: it accepts followers and dials leaders with the same certificate.
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(_identifier(self._key))
        signed = builder.add_extension(signer, critical=False).sign(self._key, hashes.SHA256())
        secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = self._home / file
        self._replace(path, secret + signed.public_bytes(_PEM))
        return path

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_bytes(content)
        fresh.rename(path)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expires: dt.datetime
) -> x509.CertificateBuilder:
    begins = min(_now(), expires) - _ALLOWED_SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(expires)
    )


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    """Return the identifier by which strict peers tell the authority's key (RFC 5280, 4.2.1.1)."""
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
