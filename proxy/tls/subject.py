"""The subject of a client's certificate as Kafka writes it: the principal of a TLS connection (KIP-371's default).

It is the whole distinguished name in RFC 2253 as `X500Principal.getName` has it, which escapes more than RFC 4514 asks
for and writes attributes without a keyword in hexadecimal. `ssl.principal.mapping.rules` are not applied. Pure.
"""

from __future__ import annotations

import re

from cryptography import x509

from .identity import CANNOT_READ

_SPECIAL = re.compile(r'[,=+<>#;"\\]')
_SPACES = " \r"
"""The characters that are escaped at the beginning and at the end."""
_LONG_FORM = 0x80


def subject_of(certificate: bytes) -> str | None:
    """Return the subject of an X.509 certificate (DER) that OpenSSL has verified; None if it has none, or cannot be
    read."""
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
    """Return the DER of the value: what comes last in a name of this attribute alone, behind its type."""
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
