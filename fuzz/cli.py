"""The command line: what is thrown, how much of it, at which sidecar; progress, a table at the end, JSON on request."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
import trio

from lab.sidecars import throttle_sidecar_script

from .invariant import MIB, Bounds
from .modes import MODES
from .priority import be_nice
from .reporting import as_json, from_json, summed, table
from .running import Order, replay, run
from .scenes import SCENES
from .stage import Program

CORPUS = Path("build/fuzz")
NO_SCENE = "none"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", default=1, help="Everything that is sent follows from it.")
@click.option("--requests", default=60_000, help="Hostile requests, over all modes.")
@click.option("--answers", default=30_000, help="Hostile answers of a leader, over all modes.")
@click.option("--http", default=6_000, help="Hostile HTTP requests, over all modes.")
@click.option("--quota-files", default=120, help="Hostile quotas.toml files, over all modes.")
@click.option("--mode", "modes", multiple=True, type=click.Choice(list(MODES)), help="Repeatable.  [default: all]")
@click.option(
    "--scene", "scenes", multiple=True, type=click.Choice([*SCENES, NO_SCENE]), help="Repeatable.  [default: all]"
)
@click.option("--scene-size", default=1.0, help="How long a scene is, beside the usual.")
@click.option("--at-once", default=24, help="Attackers.")
@click.option("--slow-ms", default=100.0, help="How much longer than the control's a fetch of the victim's may take.")
@click.option("--memory", default=400, help="MiB that the sidecar may have.")
@click.option("--program", default=None, help="The throttle-sidecar to attack.  [default: this environment's]")
@click.option("--corpus", default=CORPUS, type=click.Path(path_type=Path), help="Where failing bytes are kept.")
@click.option(
    "--replay", "files", multiple=True, type=click.Path(path_type=Path, exists=True), help="Only these files."
)
@click.option(
    "--whole",
    is_flag=True,
    help="A million requests, a million answers, 100 000 HTTP requests and 1000 files over the six modes, no scene; "
    "with --mode that mode's sixth. Half an hour.",
)
@click.option(
    "--sum",
    "parts",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Only add up what runs wrote with --json, by what was thrown.",
)
@click.option("--json", "json_to", default=None, type=click.Path(path_type=Path), help="Write results, as JSON lines.")
def main(
    *,
    seed: int,
    requests: int,
    answers: int,
    http: int,
    quota_files: int,
    modes: tuple[str, ...],
    scenes: tuple[str, ...],
    scene_size: float,
    at_once: int,
    slow_ms: float,
    memory: int,
    program: str | None,
    corpus: Path,
    files: tuple[Path, ...],
    whole: bool,
    parts: tuple[Path, ...],
    json_to: Path | None,
) -> None:
    """Throw bytes at a running sidecar; whoever else is relayed by it must not notice.

    A victim, a follower in sync and its leader, is relayed by the sidecar under attack; every byte it gets is checked
    and every fetch is timed, beside a control that an idle sidecar relays. What breaks this is narrowed down and kept
    as a file, which --replay sends again. Exit status 1 if the victim noticed anything.

    \b
    Examples:
      make fuzz
      make fuzz ARGS="--whole --mode none --json none.jsonl"
      make fuzz ARGS="--sum none.jsonl --sum quotas.jsonl"
      make fuzz ARGS="--seed 7 --mode kip73 --scene none --http 0"
      make fuzz ARGS="--replay build/fuzz/requests-none-0123456789.json"
    """
    if parts:
        click.echo(table(summed(one for part in parts for one in from_json(part.read_text("utf-8")))))
        return
    order = Order(
        seed=seed,
        program=Program(program or throttle_sidecar_script()),
        frames={"requests": requests, "answers": answers, "http": http},
        quota_files=quota_files,
        modes=modes or tuple(MODES),
        scenes=[name for name in scenes or SCENES if name != NO_SCENE],
        corpus=corpus,
        scene_size=scene_size,
        at_once=at_once,
        bounds=Bounds(slow_ms=slow_ms, memory_bytes=memory * MIB),
    )
    _carry_out(order.as_whole() if whole else order, files, json_to)


def _carry_out(order: Order, files: tuple[Path, ...], json_to: Path | None) -> NoReturn:
    be_nice()
    say = partial(click.echo, err=True)
    results = trio.run(replay, files, order, say) if files else trio.run(run, order, say)
    click.echo(table(results))
    if json_to is not None:
        json_to.write_text(as_json(results), "utf-8")
    sys.exit(1 if any(result.findings for result in results) else 0)
