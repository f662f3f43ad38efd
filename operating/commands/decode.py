"""``decode``: Kafka Fetch frames as JSON, the way Kafka's own converters print them.

Reads files and prints; what a frame means is `protocol`. Invariant: one line per file, whatever is in it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from protocol.errors import ProtocolError
from protocol.kafka_json import request_json, response_json
from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes

from ..terminal import encoded, say_json
from .options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PREFIX = 4


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
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE…")
@click.pass_context
def command(ctx: click.Context, /, *, kind: str, api_version: int, files: tuple[Path, ...]) -> None:
    """Print each FILE, one Kafka Fetch frame with or without its length prefix, as one line of JSON.

    Exit status 1 if any of them is not such a frame; its line says what is wrong.

    \b
    Examples:
      throttle-sidecar decode fetch-request.bin
      throttle-sidecar decode --kind response --api-version 5 *.bin
    """

    parse = request_json if kind == "request" else partial(response_json, api_version=api_version)
    lines = [_decode(file, parse) for file in files]
    for line in lines:
        say_json(encoded(line))
    ctx.exit(1 if any("error" in line for line in lines) else 0)


def _decode(file: Path, parse: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"file": str(file), **_parsed(read_bytes(file, takes_pipes=True), parse)}
    except ConfigurationError as error:
        return {"file": str(file), "error": str(error).removeprefix(f"{file}: ")}
    except ProtocolError as error:
        return {"file": str(file), "error": str(error)}


def _parsed(content: bytes, parse: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    """Parse a frame. Raises ProtocolError.

    A frame that has its prefix is recognised by it: first come four bytes with the length of the rest. Without one, an
    api key or a correlation id stands there, which is that length by chance alone.
    """
    if int.from_bytes(content[:_PREFIX]) != len(content) - _PREFIX:
        return parse(content)
    try:
        return parse(content[_PREFIX:])
    except ProtocolError as error:
        try:
            return parse(content)
        except ProtocolError:
            raise error from None
