"""An operator at a terminal: a shell on a pseudo-terminal, in which commands are typed and their output is read."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pexpect

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROMPT = "operator$ "
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
ROWS, COLUMNS = 50, 150


class Terminal:
    """Args: home: where the shell is; tools: further commands, name -> shell script."""

    def __init__(self, home: Path, tools: Mapping[str, str]) -> None:
        programs = home / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        for name, script in tools.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.transcript = ""
        self._shell = pexpect.spawn(
            "bash", ["--norc", "--noprofile", "-i"], cwd=str(home), dimensions=(ROWS, COLUMNS), encoding="utf-8",
            env={"PATH": path, "PS1": _PROMPT, "TERM": "xterm", "HOME": str(home), "LANG": "C.UTF-8"}, timeout=45,
        )  # fmt: skip
        self._shell.expect_exact(_PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.close(force=True)

    def type(self, command: str, *, asks: str = "") -> str:
        """Type a command, and yes to what it `asks`; wait for the next prompt. What it printed, as read on the
        screen."""
        self._send(command, asks)
        return self._read(_PROMPT, command)

    def watch(self, command: str, until: str, *, asks: str = "") -> str:
        """Type a command that goes on by itself, after a yes to what it `asks`, wait until the screen shows `until`,
        press Ctrl-C."""
        self._send(command, asks)
        self._shell.expect(until)
        seen = _ESCAPES.sub("", str(self._shell.before) + str(self._shell.after))
        self._shell.sendintr()
        return seen + self._read(_PROMPT, command)

    def exit_status(self) -> int:
        """Of the last command."""
        return int(self.type("echo $?").split()[-1])

    def _send(self, command: str, asks: str) -> None:
        self._shell.sendline(command)
        if asks:
            self._shell.expect(asks)
            self._shell.sendline("y")

    def _read(self, prompt: str, command: str) -> str:
        self._shell.expect_exact(prompt)
        output = _ESCAPES.sub("", str(self._shell.before)).partition("\n")[2]
        self.transcript += f"{_PROMPT}{command}\n{output}"
        return output
