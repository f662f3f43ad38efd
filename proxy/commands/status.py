"""``status``: what one or more sidecars do right now, read from their /throttle.

Fetching only; `status_table` lays it out. Invariant: a sidecar that cannot be reached is an error with its
URL, except while watching, where it is a row until it is back.
"""

from __future__ import annotations

import http.client
import time
import urllib.request
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console, RenderableType
from rich.live import Live

from .status_table import Page, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_URL = "http://127.0.0.1:9404"
_TIMEOUT_SECONDS = 3.0
_REFRESH_SECONDS = 1.0
_PLAIN_WIDTH = 160
_MAX_BYTES = 16 * 2**20


class UnreachableError(Exception):
    """No sidecar answers at that URL, or not as one; the message names the URL and is ready to print."""


@click.command("status", short_help="Show what sidecars do right now.")
@click.option(
    "--url",
    "urls",
    multiple=True,
    default=(DEFAULT_URL,),
    show_default=True,
    help="A sidecar; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each sidecar's own JSON, one line each, once.")
@click.option("--watch/--once", "watch", default=None, help="Refresh every second. Default: if this is a terminal.")
def command(urls: tuple[str, ...], *, as_json: bool, watch: bool | None) -> None:
    """Show role, quota, rate, what was omitted, lag, time left and the partitions furthest behind.

    \b
    Examples:
      throttle-sidecar status
      throttle-sidecar status --once --url http://kafka-101:9404 --url http://kafka-102:9404
      throttle-sidecar status --json | jq .roles.leader.rate_bytes_per_second
    """
    console = Console()
    if not as_json and (watch or (watch is None and console.is_terminal)):
        _watch(urls, console)
        return
    try:
        if as_json:
            for content in [fetch(url) for url in urls]:
                click.echo(content)
        else:
            _print_once([read(url) for url in urls], console)
    except UnreachableError as error:
        raise click.ClickException(str(error)) from error


def fetch(url: str) -> bytes:
    """The JSON of /throttle as it came, on one line. Raises UnreachableError."""
    page = url.rstrip("/") + "/throttle"
    if not page.startswith(("http://", "https://")):
        raise UnreachableError(f"{url}: expected a URL like {DEFAULT_URL}")
    try:
        with urllib.request.urlopen(page, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - checked above
            return bytes(response.read(_MAX_BYTES)).strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{page}: no answer from a sidecar: {reason}") from error


def read(url: str) -> Page:
    """Raises UnreachableError also for an answer that is not a sidecar's."""
    try:
        return msgspec.json.decode(fetch(url), type=Page)
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"{url}: the answer is not a sidecar's: {error}") from error


def _print_once(pages: Sequence[Page], console: Console) -> None:
    if not console.is_terminal:
        # Into a file or a pipe: a column cut to the default 80 characters would be lost.
        console = Console(width=_PLAIN_WIDTH)
    console.print(layout(pages))


def _watch(urls: Sequence[str], console: Console) -> None:
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_layout_now(urls), refresh=True)
                time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        # How watching ends; the last table stays on the screen.
        return


def _layout_now(urls: Sequence[str]) -> RenderableType:
    pages, unreachable = [], []
    for url in urls:
        try:
            pages.append(read(url))
        except UnreachableError as error:
            unreachable.append(str(error))
    return layout(pages, unreachable)
