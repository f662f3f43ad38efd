"""Keys, certificates and authorities, read from PEM or PKCS12 files; and the name in a peer's certificate.

Blocking. Knows no socket. Invariant: an `Identity`'s key belongs to its certificate; an error names the file and the
problem, never a password or a key.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from ..config.tls_settings import StoreType
from ..errors import ConfigurationError
from ..files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from ..config.tls_settings import Secret, StoreSettings

MAX_BYTES = 2**20
_PEM = serialization.Encoding.PEM
_PKCS8 = serialization.PrivateFormat.PKCS8
CANNOT_READ = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""The errors of cryptography if it cannot read the content, or if a password is wrong or missing. It reads a
certificate bit by bit: an error in its key or its names is raised only when these are asked for."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The key of a leg, its certificate, and the intermediate certificates."""

    place: str
    """The file it is from."""
    pem: bytes = field(repr=False)
    names: tuple[str, ...]
    """The host names, with wildcards, and IP addresses that the certificate is valid for."""
    expires: float
    """The POSIX time at which the first certificate of the chain expires."""
    valid: tuple[float, float]
    """The POSIX times between which its own certificate is valid. One of an authority in the chain may have ended where
    another way leads to an authority that is trusted."""

    def is_valid(self, now: float) -> bool:
        first, last = self.valid
        return first <= now <= last

    def suits(self, name: str) -> bool:
        """Return True if a peer that dials `name`, a host name or an IP address, accepts this certificate (RFC 6125, as
        Java does)."""
        asked = name.lower().rstrip(".")
        _, _, parent = asked.partition(".")
        wanted = {asked, f"*.{parent}"} if parent and not _is_address(asked) else {asked}
        return any(own.lower() in wanted for own in self.names)


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authorities whose certificates are accepted."""

    pem: str = field(repr=False)
    expires: float


def read_identity(store: StoreSettings) -> Identity:
    """Read the key and certificates of a store. Raises ConfigurationError."""
    key = None if store.key is None else read_bytes(store.key, most_bytes=MAX_BYTES)
    return parse_identity(store, read_bytes(store.location, most_bytes=MAX_BYTES), key)


def parse_identity(store: StoreSettings, content: bytes, pem_key: bytes | None = None) -> Identity:
    """Parse the content of the store's files; `store` has the expected types, and messages' places. `pem_key`: of
    a store that has its key elsewhere. Raises ConfigurationError."""
    password = _password(store.password)
    place = store.location
    try:
        if store.type is StoreType.PKCS12:
            key, chain = _of_pkcs12(content, password)
        else:
            place = store.key or store.location
            key = _key_of_pem(content if pem_key is None else pem_key, password, whose=str(place))
            place = store.location
            chain = x509.load_pem_x509_certificates(content)
        own = chain[0]
        belongs, names = own.public_key() == key.public_key(), _names(own)
    except CANNOT_READ as error:
        raise ConfigurationError(f"{place}: {_expected(store)}: {_words(error)}") from error
    if not belongs:
        raise ConfigurationError(f"{store.location}: the key does not belong to the first certificate")
    secret = key.private_bytes(_PEM, _PKCS8, serialization.NoEncryption())
    certificates = b"".join(certificate.public_bytes(_PEM) for certificate in chain)
    valid = own.not_valid_before_utc.timestamp(), own.not_valid_after_utc.timestamp()
    return Identity(str(store.location), secret + certificates, names, _ends(chain), valid)


def read_authorities(store: StoreSettings) -> Authorities:
    """Read the authorities of a store. Raises ConfigurationError."""
    return parse_authorities(store, read_bytes(store.location, most_bytes=MAX_BYTES))


def parse_authorities(store: StoreSettings, content: bytes) -> Authorities:
    """Parse the content of the store's file, as `parse_identity` does. Raises ConfigurationError."""
    try:
        if store.type is StoreType.PKCS12:
            found = pkcs12.load_pkcs12(content, _password(store.password))
            certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
        else:
            certificates = x509.load_pem_x509_certificates(content)
    except CANNOT_READ as error:
        raise ConfigurationError(f"{store.location}: {_expected(store)}: {_words(error)}") from error
    if not certificates:
        raise ConfigurationError(f"{store.location}: expected certificates, found none")
    pem = b"".join(certificate.public_bytes(_PEM) for certificate in certificates).decode("ascii")
    return Authorities(pem, _ends(certificates))


def _of_pkcs12(content: bytes, password: bytes | None) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    found = pkcs12.load_pkcs12(content, password)
    if found.key is None or found.cert is None:
        raise ValueError("found no key with its certificate")
    return found.key, [found.cert.certificate, *(each.certificate for each in found.additional_certs)]


def _key_of_pem(content: bytes, password: bytes | None, *, whose: str) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(content, password)
    except TypeError as error:
        if password is None:
            raise
        # A password for a key that is not encrypted: as for Java, that is no error.
        if "not encrypted" in str(error):
            return load_pem_private_key(content, None)
        raise ValueError(f"the key of {whose}: {error}") from error


def _password(secret: Secret | None) -> bytes | None:
    if secret is None:
        return None
    if secret.file is not None:
        return read_bytes(secret.file, most_bytes=MAX_BYTES).strip()
    # As it came: a password in the environment need not be UTF-8.
    return (secret.value or "").encode(errors="surrogateescape")


def _expected(store: StoreSettings) -> str:
    if store.type is StoreType.PKCS12:
        return "expected a PKCS12 store that its password opens"
    return "expected PEM (or ssl.keystore.type, ssl.truststore.type = PKCS12)"


def _words(error: Exception) -> str:
    """Return the first sentence of an error of cryptography: the rest is advice for programmers."""
    return (str(error) or type(error).__name__).partition(". ")[0].partition("\n")[0]


def is_trusted(identity: Identity, authorities: Authorities) -> bool:
    """Return True if the certificate, or one of its chain, is one of these authorities or signed by one."""
    trusted = x509.load_pem_x509_certificates(authorities.pem.encode())
    return any(
        own == each or _signed(own, each) for own in x509.load_pem_x509_certificates(identity.pem) for each in trusted
    )


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (*CANNOT_READ, InvalidSignature):
        return False
    return True


def names_of(certificate: bytes) -> tuple[str, ...]:
    """Return the names in an X.509 certificate (DER) that OpenSSL has verified: the alternative names, or without any
    the common name.

    A certificate that cannot be read has no names.
    """
    try:
        return _names(x509.load_der_x509_certificate(certificate))
    except CANNOT_READ:
        return ()


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(str(attribute.value) for attribute in common)
    addresses = (str(address) for address in found.get_values_for_type(x509.IPAddress))
    return (*found.get_values_for_type(x509.DNSName), *addresses)


def _ends(certificates: Sequence[x509.Certificate]) -> float:
    return min(certificate.not_valid_after_utc.timestamp() for certificate in certificates)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_SPECIAL = re.compile(r'[,=+<>#;"\\]')
_SPACES = " \r"
"""The characters that are escaped at the beginning and at the end."""
_LONG_FORM = 0x80


def subject_of(certificate: bytes) -> str | None:
    """Return the subject of an X.509 certificate (DER) that OpenSSL has verified; None if it has none, or cannot be
    read.

    It is the principal of a TLS connection as Kafka writes it (KIP-371's default): the whole distinguished name in RFC
    2253 as `X500Principal.getName` has it, which escapes more than RFC 4514 asks for and writes attributes without a
    keyword in hexadecimal. `ssl.principal.mapping.rules` are not applied.
    """
    try:
        rdns = x509.load_der_x509_certificate(certificate).subject.rdns
        return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(rdns)) or None
    except CANNOT_READ:
        return None


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = attribute.rfc4514_attribute_name
    if keyword[0].isdigit():
        return f"{keyword}=#{_encoded_value(attribute).hex()}"
    value = _SPECIAL.sub(r"\\\g<0>", str(attribute.value)).replace("\0", "\\00")
    begins, ends = len(value) - len(value.lstrip(_SPACES)), len(value.rstrip(_SPACES))
    outer = (f"\\{each}" if not begins <= at < ends else each for at, each in enumerate(value))
    return f"{keyword}={''.join(outer)}"


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the DER of the value: the end of a name of this attribute alone, after its type."""
    name = x509.Name([attribute]).public_bytes()
    at = 0
    for _ in ("name", "relative distinguished name", "attribute"):
        at = _content(name, at)[0]
    return name[_content(name, at)[1] :]


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of a DER element begins and ends."""
    length, begins = data[at + 1], at + 2
    if length >= _LONG_FORM:
        begins += length - _LONG_FORM
        length = int.from_bytes(data[at + 2 : begins])
    return begins, begins + length
