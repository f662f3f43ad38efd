"""The commit that is packed and released: its version, its time, and commands that are run for it."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
"""The path of uv, as `make setup` fetches it."""


def version() -> str:
    """Return the project's version, which pyproject.toml alone has."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return found


def commit() -> str:
    """Return the commit's full id."""
    return run("git", "rev-parse", "HEAD").strip()


def commit_seconds() -> int:
    """Return when the commit was made, in seconds since 1970: the time of everything that is made of it."""
    return int(run("git", "log", "-1", "--format=%ct"))


def commit_time() -> str:
    """Return the same as RFC 3339 has it."""
    return run("git", "log", "-1", "--format=%cI").strip()


def run(*command: str | Path) -> str:
    """Return what a command says, run at the root of the project. Raises CalledProcessError."""
    # uv copies: times are changed, and a link would be into its cache. Each tool is told its time by an option, and
    # buildah takes no second one.
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**environment, "UV_LINK_MODE": "copy"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout
