"""The command line: what is thrown, how much of it, at which sidecar; progress, a table at the end, JSON on request."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import trio

from lab.sidecars.sidecars import throttle_sidecar_script
from lab.stopping import STOPPED, until_told_to_stop

from .findings import cases_of
from .invariant import MIB, Bounds
from .reporting import as_json, from_json, summed, table
from .running import Order, replay, run
from .scenes import SCENES
from .stage.modes import MODES
from .stage.priority import be_nice
from .stage.stage import Program

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .campaign import Result
    from .findings import Kept

CORPUS = Path("build/fuzz")
NO_SCENE = "none"


COUNT = click.IntRange(0)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def _kept(_: click.Context, option: click.Parameter, paths: Sequence[Path]) -> dict[Path, Kept]:
    """Read the corpus files. They are read before anything runs, so that a wrong one is said at once."""
    try:
        found = {path: cases_of(path) for path in paths}
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from error
    for path, (mode, _cases) in found.items():
        if mode not in MODES:
            raise click.BadParameter(
                f"{path}: expected one of the modes {', '.join(MODES)}, found {mode}", param=option
            )
    return found


def _results(_: click.Context, option: click.Parameter, paths: Sequence[Path]) -> list[Result]:
    found: list[Result] = []
    for path in paths:
        try:
            found += from_json(path.read_text("utf-8"))
        except ValueError as error:
            message = f"{path}: expected lines that a run wrote with --json, found something else ({error})"
            raise click.BadParameter(message, param=option) from error
    return found


def _in_a_folder(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file whose folder is missing before the run, which may take half an hour and writes it at its end."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"expected a folder to write into, found none: {path.parent}", param=option)
    return path


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", default=1, help="Everything that is sent follows from it.")
@click.option("--requests", default=60_000, type=COUNT, help="Hostile requests, over all modes.")
@click.option("--answers", default=30_000, type=COUNT, help="Hostile answers of a leader, over all modes.")
@click.option("--http", default=6_000, type=COUNT, help="Hostile HTTP requests, over all modes.")
@click.option("--quota-files", default=120, type=COUNT, help="Hostile quotas.toml files, over all modes.")
@click.option("--mode", "modes", multiple=True, type=click.Choice(list(MODES)), help="Repeatable.  [default: all]")
@click.option(
    "--scene", "scenes", multiple=True, type=click.Choice([*SCENES, NO_SCENE]), help="Repeatable.  [default: all]"
)
@click.option("--scene-size", default=1.0, help="How long a scene is, beside the usual.")
@click.option("--at-once", default=24, type=click.IntRange(1), help="Attackers.")
@click.option("--slow-ms", default=100.0, help="How much longer than the control's a fetch of the victim's may take.")
@click.option("--memory", default=400, type=click.IntRange(1), help="MiB that the sidecar may have.")
@click.option("--program", default=None, help="The throttle-sidecar to attack.  [default: this environment's]")
@click.option("--corpus", default=CORPUS, type=click.Path(path_type=Path), help="Where failing bytes are kept.")
@click.option("--replay", "files", multiple=True, type=FILE, callback=_kept, help="Only these files.")
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
    type=FILE,
    callback=_results,
    help="Only add up what runs wrote with --json, by what was thrown.",
)
@click.option(
    "--json",
    "json_to",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_in_a_folder,
    help="Write results, as JSON lines.",
)
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
    files: dict[Path, Kept],
    whole: bool,
    parts: list[Result],
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
        click.echo(table(summed(parts)))
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


def _carry_out(order: Order, files: dict[Path, Kept], json_to: Path | None) -> NoReturn:
    """Carry out the order, and print what is finished by then, whatever ends the run."""
    be_nice()
    results: list[Result] = []
    work = partial(replay, files) if files else run
    stopped = True
    try:
        finished = partial(_finished, work, order, results)
        stopped = trio.run(until_told_to_stop, finished) is None
    except* KeyboardInterrupt:
        stopped = True
    click.echo(table(results))
    if json_to is not None:
        json_to.write_text(as_json(results), "utf-8")
    if stopped:
        click.echo("stopped: what was not finished is not in the table", err=True)
        sys.exit(STOPPED)
    sys.exit(1 if any(result.findings for result in results) else 0)


async def _finished(work: Callable[..., Awaitable[None]], order: Order, results: list[Result]) -> bool:
    await work(order, partial(click.echo, err=True), results)
    return True
