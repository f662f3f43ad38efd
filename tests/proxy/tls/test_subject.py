"""Subjects of certificates as Kafka's principals have them: `X500Principal.getName` of Java 17, recorded."""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid

from proxy.config.tls_settings import ClientAuth
from proxy.quotas.client_entity import ANONYMOUS
from proxy.tls.identity import subject_of

from .stage import NAME, Keys, connected, made

if TYPE_CHECKING:
    from pathlib import Path

KEY = ec.generate_private_key(ec.SECP256R1())
Rdn = tuple[tuple[x509.ObjectIdentifier, str], ...]


def certificate(*rdns: Rdn) -> bytes:
    """A certificate of this subject, from the country to the common name as they are written."""
    subject = x509.Name(
        [x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in rdn]) for rdn in rdns]
    )
    now = dt.datetime.now(dt.UTC)
    issuer = x509.Name([x509.NameAttribute(Oid.COMMON_NAME, "authority")])
    made = x509.CertificateBuilder(issuer, subject, KEY.public_key(), 1, now, now + dt.timedelta(days=1))
    return made.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def of(*attributes: tuple[x509.ObjectIdentifier, str]) -> tuple[Rdn, ...]:
    return tuple((each,) for each in attributes)


@pytest.mark.parametrize(
    ("rdns", "name"),
    [
        (
            of(
                (Oid.COUNTRY_NAME, "DE"),
                (Oid.ORGANIZATION_NAME, "Acme, Inc."),
                (Oid.ORGANIZATIONAL_UNIT_NAME, "x"),
                (Oid.COMMON_NAME, "etl"),
            ),
            r"CN=etl,OU=x,O=Acme\, Inc.,C=DE",
        ),
        (of((Oid.COMMON_NAME, ' #a=b+c;d<e>f"g\\h ')), r"CN=\ \#a\=b\+c\;d\<e\>f\"g\\h\ "),
        (of((Oid.COMMON_NAME, "#lead"), (Oid.LOCALITY_NAME, "mid#dle =")), r"L=mid\#dle \=,CN=\#lead"),
        (
            of(
                (Oid.EMAIL_ADDRESS, "a@b.c"),
                (Oid.COMMON_NAME, "x"),
                (Oid.SERIAL_NUMBER, "12"),
                (Oid.GIVEN_NAME, "G"),
                (Oid.SURNAME, "S"),
            ),
            "2.5.4.4=#0c0153,2.5.4.42=#0c0147,2.5.4.5=#13023132,CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            of(
                (Oid.DOMAIN_COMPONENT, "org"),
                (Oid.DOMAIN_COMPONENT, "acme"),
                (Oid.USER_ID, "u1"),
                (Oid.STREET_ADDRESS, "s"),
                (Oid.STATE_OR_PROVINCE_NAME, "ST"),
            ),
            "ST=ST,STREET=s,UID=u1,DC=acme,DC=org",
        ),
        (of((x509.ObjectIdentifier("1.2.3.4.5"), "own" * 60)), f"1.2.3.4.5=#0c81b4{'6f776e' * 60}"),
        (of((Oid.COMMON_NAME, "jörg ✓")), "CN=jörg ✓"),
        (of((Oid.COMMON_NAME, "  two  spaces  ")), r"CN=\ \ two  spaces\ \ "),
        (of((Oid.COMMON_NAME, "tab\tnew\nline\x01")), "CN=tab\tnew\nline\x01"),
        (of((Oid.COMMON_NAME, "nul\0x")), r"CN=nul\00x"),
        (of((Oid.COMMON_NAME, "   ")), r"CN=\ \ \ "),
        (of((Oid.COMMON_NAME, "a\r ")), "CN=a\\\r\\ "),
        (of((Oid.COMMON_NAME, "\r a")), "CN=\\\r\\ a"),
        (
            (
                ((Oid.COMMON_NAME, "multi"), (Oid.USER_ID, "b"), (Oid.ORGANIZATIONAL_UNIT_NAME, "a")),
                ((Oid.COUNTRY_NAME, "DE"),),
            ),
            "C=DE,OU=a+CN=multi+UID=b",
        ),
        ((), None),
    ],
)
def test_names_are_as_java_writes_them(rdns: tuple[Rdn, ...], name: str | None) -> None:
    assert subject_of(certificate(*rdns)) == name


def test_what_is_no_certificate_has_no_subject() -> None:
    assert subject_of(b"") is None
    assert subject_of(certificate(*of((Oid.COMMON_NAME, "x")))[:-1]) is None


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_user_is_the_subject_also_where_a_session_is_resumed(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    keys = Keys(tmp_path)
    leg, _ = made(keys.listen(ClientAuth.REQUIRED))
    context, session = keys.client(presents=keys.own), None
    context.maximum_version = newest
    for is_resumed in (False, True):
        async with connected(leg, context, session=session) as (own, peer):
            own.send(b"x")
            peer.recv(1)
            session = peer.session
            assert (leg.user_of(own._sock), peer.session_reused) == (f"CN={NAME}", is_resumed)


async def test_without_a_certificate_the_user_is_anonymous(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    leg, _ = made(keys.listen())
    async with connected(leg, keys.client(presents=keys.own)) as (own, _):
        assert leg.user_of(own._sock) == ANONYMOUS
