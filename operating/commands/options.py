"""Options that several commands share, and the types of what is typed. Knows click, not what the options are for.

Invariant: a password that was typed into a URL is in no message.
"""

from __future__ import annotations

from pathlib import Path

import click

from proxy.url_text import names_user, without_user

from ..configuration import DEFAULT_CONFIG


class _SidecarUrl(click.ParamType[str]):
    """Where a sidecar is. Whether it is a URL is for who asks there to say, beside other sidecars' answers."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            # As of a variable that is not set: the sidecar that is then asked would be another one.
            self.fail("expected a URL, found nothing", param, ctx)
        if names_user(value):
            # Every table, message and command that tells of the sidecar would show it.
            self.fail(
                f"expected a URL without a user and a password, found {without_user(value)} "
                "(a sidecar's token is read from the file that THROTTLE_TOKEN_FILE names)",
                param,
                ctx,
            )
        return value


SIDECAR_URL = _SidecarUrl()
FILE = click.Path(path_type=Path, readable=False)
"""Reading tells whether it is readable, as any wrong file; access(2), which click asks, knows no capabilities."""
config_option = click.option(
    "--config",
    "config_path",
    type=FILE,
    default=DEFAULT_CONFIG,
    show_default=True,
    metavar="FILE",
    help="The static configuration.",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Replace one key of it, like ingress.listen=0.0.0.0:9092. May be repeated.",
)
fleet_option = click.option(
    "--fleet",
    "fleet_path",
    type=FILE,
    metavar="FILE",
    help="A fleet.toml: all sidecars that it lists.",
)
