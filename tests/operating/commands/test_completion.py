"""The script is sourced by a real bash; zsh and fish ask by the same variable, in click's own protocol."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

LIMIT_SECONDS = 30
RATE = "leader.replication.throttled.rate"


@pytest.fixture
def program(config: Path) -> dict[str, str]:
    """`throttle-sidecar` on the PATH, and a quotas file beside."""
    binary = config.parent / "bin" / "throttle-sidecar"
    binary.parent.mkdir()
    binary.write_text(f"#!{sys.executable}\nfrom operating.cli import main\nmain()\n")
    binary.chmod(0o755)
    return {**os.environ, "PATH": f"{binary.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("che", ["check"]),
        ("set lea", [RATE, "leader.replication.throttled.replicas"]),
        ("set --la", ["--label"]),
        ("und", ["undo"]),
    ],
)
def test_bash_completes(program: dict[str, str], config: Path, typed: str, offered: list[str]) -> None:
    with (config.parent / "quotas.toml").open("a") as quotas:
        quotas.write(f"[brokers.7]\n{RATE} = 5\n")
    script = f"""
        eval "$(throttle-sidecar completion bash)"
        COMP_WORDS=(throttle-sidecar {typed.removesuffix(" ")} {"''" if typed.endswith(" ") else ""})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _throttle_sidecar_completion throttle-sidecar
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script],
        env=program,
        cwd=config.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    assert sorted(done.stdout.split()) == sorted(offered), done.stderr


@pytest.mark.parametrize(("shell", "has"), [("zsh", "#compdef throttle-sidecar"), ("fish", "complete --no-files")])
def test_other_shells_have_their_script(sidecar: Sidecar, shell: str, has: str) -> None:
    result = sidecar("completion", shell)
    assert result.exit_code == 0
    assert has in result.output
    assert f"_THROTTLE_SIDECAR_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(
    "content",
    [
        None, b"x", b"\xff", b"schedules = 5", b"[[schedules]]", b"schedules = [5, {}]", b"topics = 5",
        b"a = 2026-99-99",
        b'[topics]\n"a\\nb" = 1\n"c\\u001b[2J" = 1',
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_complete_to_nothing(
    program: dict[str, str], config: Path, content: bytes | None
) -> None:
    """Nor does a name that would be two, or that a terminal obeys."""
    quotas = config.parent / "quotas.toml"
    quotas.unlink() if content is None else quotas.write_bytes(content)
    asked = {"COMP_WORDS": "throttle-sidecar set --topic ", "COMP_CWORD": "3"}
    done = subprocess.run(
        ["throttle-sidecar"],
        env={**program, **asked, "_THROTTLE_SIDECAR_COMPLETE": "bash_complete"},
        cwd=config.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_an_unknown_shell_is_wrong_usage(sidecar: Sidecar) -> None:
    assert sidecar("completion", "tcsh").exit_code == 2
