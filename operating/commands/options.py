"""Options that several commands share. Knows click, not what the options are for."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_path",
    # Reading tells whether it is readable; access(2), which click asks, knows no capabilities.
    type=click.Path(path_type=Path, readable=False),
    default=Path("proxy.toml"),
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
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A fleet.toml: all sidecars that it lists.",
)
