"""Finds out whether the sidecar of a proxy.toml runs on this host, for commands that use its files in its place.

Blocking. Nothing is sent: whoever may have taken the address of its pages learns no token. Invariant: only the kernel's
word counts as the sidecar's absence: a refused connection, or no socket of that name. A time-out, or a directory that
this user may not enter, leaves it open.
"""

from __future__ import annotations

import ssl
from contextlib import closing
from typing import TYPE_CHECKING

from .configuration import control_url, url_of
from .http_client import connection_to

if TYPE_CHECKING:
    from proxy.config.settings import Settings

_TIMEOUT_SECONDS = 1.5
_ABSENT = (ConnectionRefusedError, FileNotFoundError, NotADirectoryError)


def why_it_may_run(settings: Settings) -> str | None:
    """Return why a sidecar of these settings may run; None if nobody listens at its control.sock, nor for its pages."""
    for url in (control_url(settings), url_of(settings.http)):
        found = sign_at(url)
        if found is not None:
            return found
    return None


def sign_at(url: str) -> str | None:
    """Return what speaks for a listener at `url`; None if there is none."""
    # Without a handshake: whether the peer can be trusted is another question.
    unencrypted = url.replace("https://", "http://", 1)
    connection, _ = connection_to(unencrypted, "", _TIMEOUT_SECONDS, ssl.create_default_context)
    try:
        with closing(connection):
            connection.connect()
    except _ABSENT:
        return None
    except OSError as error:
        return f"{url}: {error.strerror or error}"
    return f"{url} accepts connections"
