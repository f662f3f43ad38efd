"""ssl.enabled.protocols and ssl.cipher.suites, from Java's words to OpenSSL's.

Pure. Python's interface to OpenSSL can choose only among the suites of TLS 1.2; TLS 1.3 has three, all of them sound.
Invariant: a choice that cannot be had exactly is an error, never replaced by something weaker.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ..errors import InvalidValueError
from ..quotas.units import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_AGREEMENT = "prime256v1"
"""The one group by which keys are agreed on with a peer that dials us: P-256, which every client has. OpenSSL also
offers finite fields, and the peer chooses among them. A hello of 1.2 KB for ffdhe8192 takes 120 ms of a core
(measured), and Python cannot name more than one group."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OF_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
_OF_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
"""The suites that Java and OpenSSL both have, with forward secrecy and an AEAD. Security scanners complain of all
others."""


def allowed(
    protocols: Sequence[str], suites: Sequence[str]
) -> tuple[tuple[ssl.TLSVersion, ssl.TLSVersion], str | None]:
    """Return (lowest and highest version, OpenSSL's list of suites or None for its own choice); empty lists choose
    nothing.

    Raises InvalidValueError.
    """
    for protocol in protocols:
        if protocol not in _VERSIONS:
            raise InvalidValueError(f"expected TLSv1.2 or TLSv1.3, found {shown(protocol)}")
    versions = sorted({_VERSIONS[each] for each in protocols} or _VERSIONS.values())
    if not suites:
        return (versions[0], versions[-1]), None
    for suite in suites:
        if suite not in _OF_1_2 and suite not in _OF_1_3:
            raise InvalidValueError(f"expected suites of {', '.join((*_OF_1_3, *_OF_1_2))}, found {shown(suite)}")
    newer, older = [s for s in suites if s in _OF_1_3], [_OF_1_2[s] for s in suites if s in _OF_1_2]
    if not newer:
        versions = [each for each in versions if each < ssl.TLSVersion.TLSv1_3]
    if not older:
        versions = [each for each in versions if each > ssl.TLSVersion.TLSv1_2]
    if not versions:
        raise InvalidValueError("expected suites of a version that ssl.enabled.protocols has, found none")
    if newer and versions[-1] == ssl.TLSVersion.TLSv1_3 and set(newer) != set(_OF_1_3):
        raise InvalidValueError(
            f"the suites of TLS 1.3 cannot be chosen singly: expected all of {', '.join(_OF_1_3)}, or none of them"
        )
    return (versions[0], versions[-1]), ":".join(older) or None
