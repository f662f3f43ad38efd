"""Asks a running sidecar over HTTP, for the commands that people run beside one or far from it.

Blocking. Knows HTTP, nothing of what a page says. Invariant: who does not answer, or refuses, is an error that names
the URL; no answer is read further than it may be long.
"""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import UnreachableError
from proxy.files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

DEFAULT_URL = "http://127.0.0.1:9404"
TIMEOUT_SECONDS = 3.0
TOKEN_FILE = "THROTTLE_TOKEN_FILE"  # noqa: S105 - of an environment variable
"""Names the file with the token of a sidecar whose every page wants one (http.require_token)."""
_MAX_TOKEN_BYTES = 4096
_MAX_BYTES = 16 * 2**20
_MAX_REFUSAL_BYTES = 64 * 1024


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A sidecar sends nobody elsewhere, and a token is for it alone."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def ask(url: str, page: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """Return what is at `page` (``"/throttle"``) of the sidecar at `url`, without blanks around it.

    Raises:
        UnreachableError: it is no URL, nobody answers there, or not with what was asked for.
    """
    content, _ = send(url, page, timeout_seconds=timeout_seconds)
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
    """Send a request to the sidecar at `url`; return what it answers, as it came, and the answer's headers.

    Raises:
        UnreachableError: it is no URL, nobody answers there, or it refuses.
        ConfigurationError: the token's file cannot be read.
    """
    whole = url.rstrip("/") + page
    if not whole.startswith(("http://", "https://")):
        raise UnreachableError(f"{url}: expected a URL like {DEFAULT_URL}")
    try:
        if TOKEN_FILE in os.environ:
            token = read_bytes(Path(os.environ[TOKEN_FILE]), most_bytes=_MAX_TOKEN_BYTES).decode().strip()
            headers = {"Authorization": f"Bearer {token}", **headers}
        request = urllib.request.Request(whole, data=body, headers=dict(headers), method=method)  # noqa: S310 - checked above
        with _OPENER.open(request, timeout=timeout_seconds) as answer:
            return bytes(answer.read(_MAX_BYTES)), answer.headers
    except urllib.error.HTTPError as refusal:
        with refusal:
            said = refusal.read(_MAX_REFUSAL_BYTES).decode("utf-8", "replace").strip()
        raise UnreachableError(f"{whole}: {refusal.code}: {said}") from refusal
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{whole}: no answer from a sidecar: {reason}") from error
