"""Text for terminals: topic names and errors come from the wire, and a terminal obeys what it should show.

ESC ] 52 writes to the clipboard of whoever looks, U+202E turns a line around. Invariant: what `printable` returns has
no control character and nothing invisible in it but line breaks and tabs, and reads as before if there was none.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

LAYOUT = "\n\t"


def printable(text: str, *, keep: str = LAYOUT) -> str:
    """Return `text` with every character that does not print as `\\xNN` or `\\uNNNN`, but those in `keep`."""
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def tell(text: str) -> None:
    """Print progress to standard error."""
    click.echo(printable(text), err=True)


def forget_unwritten() -> None:
    """Lead to /dev/null what a full disk did not take: the interpreter would write it once more at its end, fail, and
    exit with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            # One that was closed from the start is None.
            stream and stream.flush()
        except OSError:
            with suppress(OSError), open(os.devnull, "wb") as null:  # noqa: PTH123 - no path, but a device
                os.dup2(null.fileno(), stream.fileno())


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def listed(names: Iterable[object], most: int) -> str:
    """Return ``101, 102 and 498 more``: the first `most` of them, and how many there are besides."""
    each = [*map(str, names)]
    more = f" and {len(each) - most:,} more" if len(each) > most else ""
    return f"{', '.join(each[:most])}{more}"


def cell(value: object) -> str:
    """Return a value as a table shows it: `-` for what is not known, or was not there."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.0f}"
    return printable(str(value), keep="")
