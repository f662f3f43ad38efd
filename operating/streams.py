"""Standard streams as every command may take them to be: open, and able to show whatever is written.

Whoever starts a program may have closed one of them (`>&-`, an old supervisor, cron). Python has None for it then, and
what is opened next gets its number: a child's message, or a library's, would go into a connection between brokers.
Knows no command. Invariant: afterwards 0, 1 and 2 are open, and writing fails for no character.
"""

from __future__ import annotations

import io
import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def mend_standard_streams() -> None:
    """Open standard streams that are closed; to be called before anything stays open.

    Where one is closed, there is /dev/null.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _open_null(number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        # UTF-8 can write every character but lone surrogates; whoever prints must have escaped those before.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="backslashreplace")


def _open_null(number: int) -> None:
    """Open /dev/null with this number, unless it is in use; a child inherits it."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        os.dup2(opened, number)
        if opened != number:
            os.close(opened)
        os.set_inheritable(number, True)  # noqa: FBT003 - it takes no name
