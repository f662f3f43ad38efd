"""The edge at which commands print: tables by rich, lines by click, and nothing in either that a terminal would obey;
and Ctrl-C as something to wait for.

Knows nothing of the content. Invariant: text from elsewhere (topic names, answers, errors) is shown; ESC is
no command and `[/red]` no style, whatever a topic is called.
"""

from __future__ import annotations

import json
import select
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec
import rich.console
from rich.segment import Segment
from rich.table import Table

from proxy.errors import ConfigurationError, UnreachableError
from proxy.logs.terminal_text import LAYOUT, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import ConsoleOptions, RenderableType

PLAIN_WIDTH = 180
"""The width of output into a file or a pipe: a column cut to rich's 80 characters would be lost."""


class Console(rich.console.Console):
    """Escapes whatever is rendered on it; text in renderables is no markup. Wide where it is no terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = PLAIN_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and not segment.text.isprintable():
                yield Segment(printable(segment.text, keep=LAYOUT), segment.style)
            else:
                yield segment


def folding_table(*left: str, right: tuple[str, ...] = ()) -> Table:
    """Return a table with these headings; cells of columns that are not numbers are folded where there is no room."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def say(text: str, *, err: bool = False) -> None:
    """Print a message of one or more lines."""
    click.echo(printable_lines(text), err=err)


def encoded(document: object) -> bytes:
    """Return one line. A file's name on Linux may be no text: bytes that are none are escaped, as in every line for
    people."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document)).encode()


@contextmanager
def problems_as_json(*, as_json: bool) -> Iterator[None]:
    """Print problems as an object with --json, so that standard output is JSON in any case.

    The error goes on, to be printed.
    """
    try:
        yield
    except (ConfigurationError, UnreachableError) as error:
        if as_json:
            problems = error.problems if isinstance(error, ConfigurationError) else [str(error)]
            say_json(encoded({"ok": False, "problems": problems}))
        raise


def say_json(document: bytes) -> None:
    """Print a JSON document of one line, in UTF-8 wherever it is printed. What a terminal would obey is in its strings
    alone, and is written there as an escape."""
    text = document.decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in LAYOUT else _json_escape(c) for c in text)
    click.echo(text.encode())


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@contextmanager
def held_interrupts() -> Iterator[Callable[[float], bool]]:
    """Hold Ctrl-C back within the block, which must be in the main thread: in the midst of a thread pool or of a screen
    that is being drawn, KeyboardInterrupt can leave a lock taken, and then nothing ends the program any more.

    Yields a function that waits so many seconds, or until Ctrl-C was pressed, maybe before: then it returns True.
    """
    heard, hears = socket.socketpair()
    with heard, hears:
        hears.settimeout(0)
        handler = signal.signal(signal.SIGINT, lambda *_: None)
        wakes = signal.set_wakeup_fd(hears.fileno(), warn_on_full_buffer=False)
        try:
            yield lambda seconds: bool(select.select([heard], [], [], seconds)[0])
        finally:
            signal.set_wakeup_fd(wakes)
            signal.signal(signal.SIGINT, handler)
