"""``health``: does the sidecar beside answer? For a container's health check, whose image has no curl.

Asks over HTTP where proxy.toml says that it listens. Invariant: exit status 0 exactly when the answer is 200.
"""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import click

from ..settings import Address, load_settings
from .options import config_option, set_option

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 64 * 1024
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command("health", short_help="Exit 0 if the sidecar answers, for health checks.")
@config_option
@set_option
@click.option("--url", metavar="URL", help="Where it is, instead of what the configuration says.")
@click.option("--ready", is_flag=True, help="Ask /readyz (traffic may be sent here), not /healthz (it is alive).")
def command(config_path: Path, overrides: tuple[str, ...], url: str | None, *, ready: bool) -> None:
    """Ask the running sidecar whether it is healthy, or ready.

    \b
    Examples:
      throttle-sidecar health --config proxy.toml
      throttle-sidecar health --ready --url http://127.0.0.1:9404
    """
    base = url or url_of(load_settings(config_path, overrides, os.environ).http.listen)
    if not base.startswith(("http://", "https://")):
        raise click.ClickException(f"--url: expected a URL like http://127.0.0.1:9404, found {base!r}")
    page = base.rstrip("/") + ("/readyz" if ready else "/healthz")
    try:
        with urllib.request.urlopen(page, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - checked above
            click.echo(answer.read(_MAX_BYTES).decode("utf-8", "replace").strip())
    except urllib.error.HTTPError as refusal:
        with refusal:
            said = refusal.read(_MAX_BYTES).decode("utf-8", "replace").strip()
        raise click.ClickException(f"{page}: {refusal.code}: {said}") from refusal
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise click.ClickException(f"{page}: no answer from a sidecar: {reason}") from error


def url_of(listen: Address) -> str:
    """Where a listener is met from beside it: a wildcard is met on loopback."""
    return f"http://{Address(_LOOPBACK.get(listen.host, listen.host), listen.port)}"
