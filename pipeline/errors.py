"""Errors as one line for people: what the operator can put right, and what Java raised.

Knows no job. Invariant: the line is one line, without a stack. A file that may not be read is named as such. An error
that the operator cannot put right is named as Spark's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkException


class InputError(Exception):
    """Ends a job with exit status 1. Its text is ready to print, says where, what was expected and what was found."""


_DENIED = re.compile(r"(?:^|\s|:)(?P<path>/[^\n]*?)(?:: | \()Permission denied", re.MULTILINE)
"""How java.nio.file's and java.io's exceptions say it; the latter put it in parentheses."""

_FULL = "No space left on device"
_DISK_FULL = (
    f"{_FULL}: that of the tables or of the result, or Spark's own (--conf spark.local.dir=…, /tmp if it is not given);"
    " nothing counts of what was not written whole: run it again when there is room"
)
_TRACEBACK = "Traceback (most recent call last)"
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:: .+)?)$", re.MULTILINE)
"""The last line of a traceback: an exception's class and what it says."""
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
"""Spark's condition for a file that was there when the files were listed."""
_MISTAKES = frozenset(
    {
        "AssertionError", "ClassCastException", "ConcurrentModificationException", "IllegalStateException",
        "NoSuchElementException", "NullPointerException",
    }
)  # fmt: skip
"""Java's exceptions for a programmer's mistakes. They say nothing about the input."""
_STOOD_STILL = re.compile(
    r"heartbeat timed out|SparkContext (?:was|has been) (?:shut down|stopped)|stopped SparkContext"
)
"""The messages with which Spark gives up an executor, or itself, because it was silent for too long or was ended."""


def jvm_ended(error: Py4JNetworkError | ConnectionError) -> str:
    """Return what to say when the JVM at the other end of py4j's connection does not answer. A job has a JVM of its
    own."""
    return (
        f"Spark's JVM ended, or was ended, while it was at work ({error}): run it again; if the kernel ended it for"
        " want of memory, with fewer cores: --master 'local[1]'"
    )


def first_line(error: PySparkException | Py4JJavaError) -> str:
    """Return what Spark says of it, or which file may not be read if it was that."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    causes = _causes(error)
    told = "\n".join(message for _, message in causes)
    denied = _DENIED.search(text) or _DENIED.search(told)
    if denied is not None:
        return f"{denied['path']}: Permission denied"
    if _FULL in text or _FULL in told:
        return _DISK_FULL
    worker = _of_worker(text)
    if worker:
        return worker
    if _GONE in text:
        return (
            "the tables were written anew while they were read, or a file of them was removed: run it again"
            f" ({text.splitlines()[0]})"
        )
    said = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if (causes and causes[-1][0] in _MISTAKES) or _STOOD_STILL.search(text):
        return (
            "Spark itself failed, not of anything that it was given: run it again. If this machine, or this process,"
            " stood still for some minutes, that may be why; if not, --conf spark.log.level=ERROR shows where"
            f" ({said})"
        )
    return said


def root_cause(error: PySparkException | Py4JJavaError) -> str:
    """Return what was at the bottom of it: `SocketTimeoutException: Read timed out`."""
    denied = _DENIED.search("\n".join(message for _, message in _causes(error)))
    if denied is not None:
        return "Permission denied"
    worker = _of_worker(str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error))
    if worker:
        return worker
    named = [f"{name}: {message}" for name, message in _causes(error) if message not in ("", "None")]
    return named[-1].splitlines()[0] if named else first_line(error)


def _of_worker(text: str) -> str:
    """Return the last line of a Python worker's traceback; empty if there is none."""
    raised = _PYTHON.findall(text.rpartition(_TRACEBACK)[2]) if _TRACEBACK in text else []
    return f"a Python worker failed: {raised[-1]}" if raised else ""


def _causes(error: PySparkException | Py4JJavaError) -> list[tuple[str, str]]:
    """Return the chain of Java's causes as (class, message), outermost first. It is needed because Spark says of a file
    that may not be read that it does not exist."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    found = []
    while cause is not None:
        found.append((str(cause.getClass().getSimpleName()), str(cause.getMessage())))
        cause = cause.getCause()
    return found
