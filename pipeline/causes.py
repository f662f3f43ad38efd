"""What went wrong in Java, as a line for people.

Knows no job. Invariant: one line, without a stack; a file that may not be read is called that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_DENIED = re.compile(r"(?:^|\s|:)(?P<path>/[^\n]*?)(?:: | \()Permission denied", re.MULTILINE)
"""As java.nio.file's and java.io's exceptions say it, the latter in parentheses."""

_TRACEBACK = "Traceback (most recent call last)"
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:: .+)?)$", re.MULTILINE)
"""The last line of a traceback: an exception's class and what it says."""
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
"""Spark's condition for a file that was there when the files were listed."""
_DEFECTS = ("java.lang.NullPointerException", "java.lang.IllegalStateException", "java.lang.AssertionError")
"""What no input and no setting explains. A driver that was stopped for ten minutes takes its executor for lost."""


def first_line(error: PySparkException | Py4JJavaError) -> str:
    """Return what Spark says of it, or which file may not be read if it was that."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    denied = _DENIED.search(text) or _DENIED.search("\n".join(message for _, message in _causes(error)))
    if denied is not None:
        return f"{denied['path']}: Permission denied"
    worker = _PYTHON.findall(text.rpartition(_TRACEBACK)[2]) if _TRACEBACK in text else []
    if worker:
        return f"a Python worker failed: {worker[-1]}"
    if _GONE in text:
        return (
            "the tables were written anew while they were read, or a file of them was removed: run it again"
            f" ({text.splitlines()[0]})"
        )
    line = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if line.startswith(_DEFECTS):
        return f"Spark itself failed, as where it stood still for minutes: run it again ({line})"
    return line


def root_cause(error: PySparkException | Py4JJavaError) -> str:
    """Return what was at the bottom of it: `SocketTimeoutException: Read timed out`."""
    denied = _DENIED.search("\n".join(message for _, message in _causes(error)))
    if denied is not None:
        return "Permission denied"
    named = [f"{name}: {message}" for name, message in _causes(error) if message not in ("", "None")]
    return named[-1].splitlines()[0] if named else first_line(error)


def _causes(error: PySparkException | Py4JJavaError) -> list[tuple[str, str]]:
    """What Java says was behind it: (class, message), outermost first. Spark calls a file that may not be read one that
    does not exist."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    found = []
    while cause is not None:
        found.append((str(cause.getClass().getSimpleName()), str(cause.getMessage())))
        cause = cause.getCause()
    return found
