from __future__ import annotations

import ssl

import pytest

from proxy.config.tls_settings import _OF_1_2, _OF_1_3, allowed
from proxy.errors import InvalidValueError

OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SUITE = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


@pytest.mark.parametrize(
    ("protocols", "suites", "expected"),
    [
        ([], [], ((OLD, NEW), None)),
        (["TLSv1.3"], [], ((NEW, NEW), None)),
        (["TLSv1.2", "TLSv1.3"], [], ((OLD, NEW), None)),
        ([], [SUITE], ((OLD, OLD), "ECDHE-RSA-AES256-GCM-SHA384")),
        ([], [SUITE, *_OF_1_3], ((OLD, NEW), "ECDHE-RSA-AES256-GCM-SHA384")),
        ([], list(_OF_1_3), ((NEW, NEW), None)),
        (["TLSv1.2"], [SUITE], ((OLD, OLD), "ECDHE-RSA-AES256-GCM-SHA384")),
    ],
)
def test_javas_words_become_openssls(
    protocols: list[str], suites: list[str], expected: tuple[tuple[ssl.TLSVersion, ssl.TLSVersion], str | None]
) -> None:
    assert allowed(protocols, suites) == expected


@pytest.mark.parametrize(
    ("protocols", "suites", "message"),
    [
        (["TLSv1.1"], [], "expected TLSv1.2 or TLSv1.3"),
        (["SSLv3"], [], "expected TLSv1.2 or TLSv1.3"),
        ([], ["TLS_RSA_WITH_AES_128_CBC_SHA"], "expected suites of"),
        ([], ["TLS_AES_256_GCM_SHA384"], "cannot be chosen singly"),
        (["TLSv1.3"], [SUITE], "expected suites of a version"),
    ],
)
def test_what_cannot_be_had_exactly_is_an_error(protocols: list[str], suites: list[str], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        allowed(protocols, suites)


@pytest.mark.parametrize("name", _OF_1_2.values())
def test_openssl_knows_every_suite(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(name)
    assert name in {cipher["name"] for cipher in context.get_ciphers()}
