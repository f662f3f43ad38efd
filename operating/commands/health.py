"""``health``: does the sidecar beside answer? For a container's health check, whose image has no curl.

Asks over HTTP where proxy.toml says that it listens. Invariant: exit status 0 exactly when the answer is 200.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from proxy.errors import UnreachableError

from ..asking import ask
from ..configuration import load_configuration, url_of
from ..terminal import say
from .options import SIDECAR_URL, config_option, set_option

if TYPE_CHECKING:
    from pathlib import Path


_TIMEOUT_SECONDS = 2.0
"""The time for an answer: less than deploy/ gives a health check."""


@click.command("health", short_help="Exit 0 if the sidecar answers, for health checks.")
@config_option
@set_option
@click.option("--url", type=SIDECAR_URL, metavar="URL", help="Its address, instead of http.listen.")
@click.option("--ready", is_flag=True, help="Ask /readyz (traffic may be sent here), not /healthz (it is alive).")
def command(config_path: Path, overrides: tuple[str, ...], url: str | None, *, ready: bool) -> None:
    """Ask the running sidecar whether it is alive, or ready.

    Exit status 0: it is. 1: it is not, or does not answer.

    \b
    Examples:
      throttle-sidecar health --config proxy.toml
      throttle-sidecar health --ready --url http://127.0.0.1:9404
    """
    base = url or url_of(load_configuration(config_path, overrides).http)
    try:
        answer = ask(base, "/readyz" if ready else "/healthz", timeout_seconds=_TIMEOUT_SECONDS)
    except UnreachableError as error:
        raise click.ClickException(str(error)) from error
    say(answer.decode("utf-8", "replace"))
