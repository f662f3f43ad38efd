"""Prints captured Kafka Fetch frames as JSON, the way Kafka's own converters print them.

    python -m protocol [--kind request|response] [--api-version N] FILE…

Reads files and prints; what a frame means is in `kafka_json`. Invariant: one line per file, whatever is in it, and
nothing in a line that a terminal obeys.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from .errors import ProtocolError
from .kafka_json import request_json, response_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PREFIX = 4
_MAX_BYTES = 64 * 2**20
_EXAMPLES = """\
Each FILE (-: standard input) has one frame, with or without its length prefix. Exit status 1 if any of them is not
such a frame; its line says what is wrong.

examples:
  python -m protocol fetch-request.bin
  python -m protocol --kind response --api-version 5 *.bin
  python -m protocol - < fetch-request.bin
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line per file; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m protocol",
        description="Print Kafka Fetch frames as JSON, one line per file.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = "whether the files are requests (the default) or responses"
    parser.add_argument("--kind", choices=("request", "response"), default="request", help=which)
    version = "the version of a response, which does not contain it; not used for requests (default: 3)"
    parser.add_argument("--api-version", type=int, default=3, help=version)
    parser.add_argument("files", nargs="+", metavar="FILE")
    given = parser.parse_args(arguments)
    parse = request_json if given.kind == "request" else partial(response_json, api_version=given.api_version)
    lines = [_decode(file, parse) for file in given.files]
    try:
        for line in lines:
            sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again at the end
        return 1
    return 1 if any("error" in line for line in lines) else 0


def _decode(file: str, parse: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"file": file, **_parsed(_read(file), parse)}
    except OSError as error:
        return {"file": file, "error": f"cannot be read: {error.strerror}"}
    except ProtocolError as error:
        return {"file": file, "error": str(error)}


def _read(file: str) -> bytes:
    """Return what is in a file or a pipe. Raises OSError, also for what is neither, or is longer than any frame."""
    with open(sys.stdin.fileno() if file == "-" else file, "rb", closefd=file != "-") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(0, "expected a file, found a device")
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(0, f"expected at most {_MAX_BYTES} bytes, found a larger file")
    return content


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


if __name__ == "__main__":
    sys.exit(main())
