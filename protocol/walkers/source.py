"""Lines of generated Python, and the values that the names in them stand for.

Must not know messages. Invariant: the names of constants are never used twice.
"""

from __future__ import annotations

from typing import Any


class Source:
    """Writes a function line by line; ``namespace`` is what it must be run in.

    ``marks`` are lines that say again what depends on ``end``, wherever that changes. With ``at_once`` the function is
    for bodies that are all there: it never asks for more, and where a body ends too early it says so.
    """

    def __init__(self, namespace: dict[str, Any], *, at_once: bool) -> None:
        self.at_once = at_once
        self.written: list[str] = []
        self.marks: list[str] = []
        self.indent = 0
        self.namespace = namespace

    def text(self) -> str:
        return "\n".join(self.written) + "\n"

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def line(self, *lines: str) -> None:
        self.written += ["    " * self.indent + line for line in lines]

    def open(self, line: str) -> None:
        self.line(line)
        self.indent += 1

    def close(self) -> None:
        self.indent -= 1

    def fail(self, message: str) -> None:
        self.line(f"raise ProtocolError(f{message!r})")

    def more(self) -> None:
        """Emit code that yields to the caller: everything before pos is done with, and more is needed from there on."""
        self.line("was = pos", "pos, end = yield pos", "stop += pos - was", "end = min(end, stop)", *self.marks)

    def wait(self, size: str) -> None:
        """Emit code that waits until so many bytes are there; it is an error if the body has fewer."""
        if self.at_once:
            self.open(f"if end - pos < {size}:")
            self.fail("the message ends too early")
            self.close()
            return
        self.open(f"while end - pos < {size}:")
        self.open("if end >= stop:")
        self.fail("the message ends too early")
        self.close()
        self.more()
        self.close()
