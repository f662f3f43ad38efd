"""``decode``: Kafka Fetch frames as JSON, the way Kafka's own converters print them.

Reads files and prints; what a frame means is `protocol`. Invariant: one line per file, whatever is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from protocol.errors import ProtocolError
from protocol.kafka_json import Engine, request_json, response_json
from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes

from ..terminal import encoded, say_json
from .options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PREFIX = 4
_ENGINES: dict[str, tuple[Engine, ...]] = {
    "construct": ("construct",),
    "walker": ("walker",),
    "both": ("construct", "walker"),
}


@click.command("decode", short_help="Print Kafka Fetch frames as JSON.")
@click.option(
    "--kind",
    type=click.Choice(["request", "response"]),
    default="request",
    show_default=True,
    help="Whether the files are requests or responses.",
)
@click.option(
    "--api-version",
    type=int,
    default=3,
    show_default=True,
    help="The version of a response, which does not contain it; not used for requests.",
)
@click.option(
    "--engine",
    type=click.Choice(list(_ENGINES)),
    default="construct",
    show_default=True,
    help="Which parser; both fails where they differ.",
)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE…")
@click.pass_context
def command(ctx: click.Context, /, *, kind: str, api_version: int, engine: str, files: tuple[Path, ...]) -> None:
    """Print each FILE, one Kafka Fetch frame with or without its length prefix, as one line of JSON.

    Exit status 1 if any of them is not such a frame; its line says what is wrong.

    \b
    Examples:
      throttle-sidecar decode fetch-request.bin
      throttle-sidecar decode --kind response --api-version 5 *.bin
    """

    def parse(frame: bytes, engine: Engine) -> dict[str, Any]:
        """Parse a frame. Raises ProtocolError."""
        return request_json(frame, engine) if kind == "request" else response_json(frame, api_version, engine)

    lines = [_decode(file, parse, _ENGINES[engine]) for file in files]
    for line in lines:
        say_json(encoded(line))
    ctx.exit(1 if any("error" in line for line in lines) else 0)


def _decode(
    file: Path, parse: Callable[[bytes, Engine], dict[str, Any]], engines: tuple[Engine, ...]
) -> dict[str, Any]:
    try:
        content = read_bytes(file, takes_pipes=True)
        decoded = [_parsed(content, engine, parse) for engine in engines]
    except ConfigurationError as error:
        return {"file": str(file), "error": str(error).removeprefix(f"{file}: ")}
    except ProtocolError as error:
        return {"file": str(file), "error": str(error)}
    if any(other != decoded[0] for other in decoded):
        return {"file": str(file), "error": f"{' and '.join(engines)} disagree"}
    return {"file": str(file), **decoded[0]}


def _parsed(content: bytes, engine: Engine, parse: Callable[[bytes, Engine], dict[str, Any]]) -> dict[str, Any]:
    """Parse a frame. Raises ProtocolError.

    A frame that has its prefix is told by it: first come four bytes with the length of the rest. Without one, an api
    key or a correlation id stands there, which is that length by chance alone.
    """
    if int.from_bytes(content[:_PREFIX]) != len(content) - _PREFIX:
        return parse(content, engine)
    try:
        return parse(content[_PREFIX:], engine)
    except ProtocolError as error:
        try:
            return parse(content, engine)
        except ProtocolError:
            raise error from None
