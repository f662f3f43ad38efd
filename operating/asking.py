"""Asks a running sidecar over HTTP, for the commands that people run beside one or far from it.

Blocking. Knows HTTP, nothing of what a page says. Invariant: who does not answer, or refuses, is an error that names
the URL; no answer is read further than it may be long.
"""

from __future__ import annotations

import functools
import http.client
import os
import ssl
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError, UnreachableError
from proxy.files.reading import read_bytes
from proxy.http.routing import MAX_TOKEN_BYTES, TOKEN
from proxy.logs.terminal_text import names_user, without_user

from .http_client import UNIX, connection_to, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

DEFAULT_URL = "http://127.0.0.1:9404"
TIMEOUT_SECONDS = 3.0
TOKEN_FILE = "THROTTLE_TOKEN_FILE"  # noqa: S105 - of an environment variable
"""Names the file with a sidecar's token, for changes and where every page requires it (http.require_token)."""
CERTIFICATE_FILE = "THROTTLE_CERTIFICATE_FILE"
"""Names a PEM file with the certificate to show a sidecar, and its key unless `KEY_FILE` names another."""
KEY_FILE = "THROTTLE_KEY_FILE"
AUTHORITIES_FILE = "SSL_CERT_FILE"
"""The variable of OpenSSL that names a PEM file with the trusted authorities."""
_MAX_BYTES = 16 * 2**20
_MAX_REFUSAL_BYTES = 64 * 1024


class RefusedError(UnreachableError):
    """A peer answered with something other than the page asked for.

    status: that of its answer.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class DistrustError(UnreachableError):
    """A peer speaks TLS, and one of the two does not trust the other."""


def shows_certificate() -> bool:
    """Return True if the environment names a certificate to show to sidecars."""
    return CERTIFICATE_FILE in os.environ


def _context() -> ssl.SSLContext:
    """Return the TLS context that the environment asks for. Raises ConfigurationError."""
    trusted = os.environ.get(AUTHORITIES_FILE)
    if not shows_certificate():
        return _context_with(None, None, trusted, 0)
    certificate, key = os.environ[CERTIFICATE_FILE], os.environ.get(KEY_FILE)
    try:
        changed = max(Path(name).stat().st_mtime_ns for name in (certificate, key) if name)
        return _context_with(certificate, key, trusted, changed)
    except OSError as error:
        named = certificate if key is None else f"{certificate}, {key}"
        expected = f"{CERTIFICATE_FILE}: {named}: expected a certificate and its key as PEM"
        raise ConfigurationError(f"{expected}: {getattr(error, 'strerror', None) or error}") from error


@functools.lru_cache(maxsize=2)
def _context_with(certificate: str | None, key: str | None, trusted: str | None, _changed: int) -> ssl.SSLContext:
    """Return a context, kept because trusted authorities are 150 certificates to read, and `status` asks fifty sidecars
    every second."""
    try:
        context = ssl.create_default_context(cafile=trusted)
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        expected = f"{AUTHORITIES_FILE}: {trusted}: expected certificates of authorities as PEM"
        raise ConfigurationError(f"{expected}: {reason}") from error
    # Python is strict about them from 3.13 on. Under every Python those that a company's clients accept are accepted.
    context.verify_flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None:
        # Without a callback OpenSSL asks the terminal for the password of a key that has one.
        context.load_cert_chain(certificate, key, password=lambda: "")
    return context


def token_in(content: bytes, *, whose: str) -> str:
    """Return the token that a file holds. Raises ConfigurationError, which never shows the content: with more
    than one line of it `http.client` would refuse the header, and print that."""
    found = content.strip()
    if not TOKEN.fullmatch(found):
        raise ConfigurationError(f"{whose}: expected one token of letters, digits and -._~+/=, found something else")
    return found.decode("ascii")


def ask(url: str, page: str, *, headers: Mapping[str, str] = {}, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """Return the content of `page` (``"/throttle"``) of the sidecar at `url`, without blanks around it.

    Raises:
        UnreachableError: it is no URL, nothing answers there, or something else does.
    """
    content, _ = send(url, page, headers=headers, timeout_seconds=timeout_seconds)
    return content.strip()


def send(
    url: str,
    page: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] = {},
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[bytes, Message]:
    """Send a request to the sidecar at `url`; return its answer unchanged, and the answer's headers.

    Raises:
        UnreachableError: it is no URL, nothing answers there, or it refuses, or (DistrustError) it cannot be trusted.
        ConfigurationError: the file of a token or a certificate cannot be read.
    """
    whole = url.rstrip("/") + page
    if names_user(url):
        raise UnreachableError(f"{without_user(url)}: expected a URL like {DEFAULT_URL}, without a user and a password")
    if not whole.startswith(("http://", "https://", UNIX)):
        raise UnreachableError(f"{url}: expected a URL like {DEFAULT_URL}")
    try:
        if TOKEN_FILE in os.environ and not whole.startswith(UNIX):
            file = Path(os.environ[TOKEN_FILE])
            token = token_in(read_bytes(file, most_bytes=MAX_TOKEN_BYTES), whose=f"{TOKEN_FILE}: {file}")
            headers = {"Authorization": f"Bearer {token}", **headers}
        connection, path = connection_to(url, page, timeout_seconds, _context)
        with closing(connection):
            connection.request(method, path, body=body, headers=dict(headers))
            with connection.getresponse() as answer:
                if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise RefusedError(f"{whole}: {answer.status}: {_said(answer)}", answer.status)
                return read_whole(answer, most_bytes=_MAX_BYTES), answer.headers
    except (OSError, http.client.HTTPException, ValueError) as error:
        if _is_distrust(error):
            raise DistrustError(f"{whole}: no answer from a sidecar that can be trusted: {error}") from error
        reason = getattr(error, "strerror", None) or error
        raise UnreachableError(f"{url}: no answer from a sidecar: {reason}") from error


def _is_distrust(error: object) -> bool:
    """Return True if the other end was heard to speak TLS, or to refuse ours. Who hangs up in between may be
    anybody."""
    return isinstance(error, ssl.SSLError) and not isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    )


def _said(refusal: http.client.HTTPResponse) -> str:
    """Return what came with it; why it did not come, if it was to."""
    try:
        return refusal.read(_MAX_REFUSAL_BYTES).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"the rest of the answer did not come: {type(error).__name__}: {error}"
