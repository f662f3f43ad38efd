"""Authorizes changes over HTTP: by bearer token, or by a client certificate with a configured name.

Invariant: without a token's file and without names nobody is let in; a name counts only where the server itself has
verified the certificate that says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .routing import json_answer

if TYPE_CHECKING:
    from .bearer_token import BearerToken
    from .routing import Answer, Request


def subject_of(certificate: bytes | None) -> str:
    """Return the distinguished name in the peer's verified certificate (DER), spelt as in RFC 4514; "" where it has
    shown none."""
    if certificate is None:
        return ""
    # Loaded where it is needed: most sidecars serve their pages in plaintext on loopback.
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()


class Writers:
    """`subjects`: distinguished names as `subject_of` spells them. `token` None: certificates alone count."""

    def __init__(self, token: BearerToken | None, subjects: frozenset[str]) -> None:
        self._token = token
        self._subjects = subjects

    def required(self, request: Request) -> Answer | None:
        """Return the answer to a request that is not authorized; None for one that is."""
        if request.subject and request.subject in self._subjects:
            return None
        if self._token is not None:
            return self._token.required(request)
        found = f"one of {request.subject}" if request.subject else "none"
        return json_answer(403, {"error": f"expected a client certificate of one of http.writers, found {found}"})
