"""Commands that say something and are over: what one said, or a LabError with what it complained of."""

from __future__ import annotations

import subprocess

from ..errors import LabError


def output_of(*command: str, check: bool = True) -> str:
    """Run it to its end and return what it printed. Blocking.

    Raises:
        LabError: it fails, unless not to `check`; or there is no such command.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError(
            f"`{command[0]}` was not found on PATH; machine/needs --table says which package has it"
        ) from error
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
