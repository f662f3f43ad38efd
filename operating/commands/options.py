"""Options that several commands share, and the types of their values. Knows click, not their purpose.

Invariant: a password that was typed into a URL is in no message.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.logs.terminal_text import names_user, without_user

from ..configuration import DEFAULT_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..fleet.members import Member


_Value = TypeVar("_Value")


class _SidecarUrl(click.ParamType[str]):
    """The URL of a sidecar. Whether it is a URL is for who asks there to say, beside other sidecars' answers."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            # As of a variable that is not set: the sidecar that is then asked would be another.
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
"""The type of a file's path. Reading reports an unreadable file, like any wrong one; access(2), which click asks,
ignores capabilities."""
config_option = click.option(
    "--config",
    "config_path",
    type=FILE,
    default=DEFAULT_CONFIG,
    show_default=True,
    metavar="FILE",
    help="The sidecar's configuration.",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Replace a key of it, e.g. ingress.listen=0.0.0.0:9092; repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class Where(NamedTuple):
    """The sidecars that a command is for, as they were named: by --url, by --fleet, or this host's."""

    urls: tuple[str, ...]
    fleet: Path | None
    at: tuple[int, ...]
    without: tuple[int, ...]

    def members(self) -> list[Member]:
        """Return whom to ask. Raises ConfigurationError."""
        from ..fleet.members import members  # `run` has no use for it, and starts without it

        return members(self.urls, self.fleet, at=self.at, without=self.without)

    def __str__(self) -> str:
        """Return the options that name the same sidecars again, for a command that is printed."""
        return "".join(
            [*(f" --url {url}" for url in self.urls), "" if self.fleet is None else f" --fleet {self.fleet}"]
        )


_BROKER = click.IntRange(min=0)
_WHERE = (
    click.option(
        "--url",
        "urls",
        type=SIDECAR_URL,
        multiple=True,
        help="This sidecar, http://HOST:9404 or unix:DIRECTORY; repeatable.",
    ),
    click.option("--fleet", type=FILE, metavar="FILE", help="All sidecars of this fleet.toml."),
    click.option("--at", type=_BROKER, multiple=True, metavar="N", help="With --fleet: only this broker; repeatable."),
    click.option(
        "--except",
        "without",
        type=_BROKER,
        multiple=True,
        metavar="N",
        help="With --fleet: not this broker; repeatable.",
    ),
)


def _where(options: Sequence[Callable[..., Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options; the command gets them as `where`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_where(*args: Any, **named: Any) -> Any:
            where = Where(*(named.pop(field, ()) for field in Where._fields))
            return command(*args, where=where, **named)

        for option in reversed(options):
            with_where = option(with_where)
        return with_where

    return decorate


where_options = _where(_WHERE)
"""The options --url, --fleet, --at and --except."""
whole_fleet_options = _where(_WHERE[:2])
"""The options --url and --fleet, for a move, which concerns every member."""


def parsed(option: str, parse: Callable[[str], _Value], text: str) -> _Value:
    """Return the value of an option. Raises ConfigurationError, which names the option."""
    try:
        return parse(text)
    except InvalidValueError as error:
        raise ConfigurationError(f"{option}: {error}") from error
