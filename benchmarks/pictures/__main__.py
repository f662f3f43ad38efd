"""Records the moves of README's pictures, and draws them.

python -m benchmarks.pictures record    three moves on two real brokers; replaces docs/plots/pictures.json
python -m benchmarks.pictures draw      docs/plots/move.svg and docs/plots/status.svg of what was recorded
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import trio

from lab.errors import LabError

from .drawing import PICTURES
from .recording import record

PLOTS = Path(__file__).parents[2] / "docs" / "plots"
RECORDING = PLOTS / "pictures.json"


@click.group()
def main() -> None:
    """Record and draw README's pictures."""


@main.command("record")
def record_command() -> None:
    """Record the moves on two real brokers."""
    try:
        recording = trio.run(record)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    RECORDING.write_text(json.dumps(recording) + "\n", "utf-8")


@main.command("draw")
def draw_command() -> None:
    """Draw what was recorded."""
    recording = json.loads(RECORDING.read_text("utf-8"))
    for name, draw in PICTURES.items():
        (PLOTS / name).write_text(draw(recording), "utf-8")


if __name__ == "__main__":
    main()
