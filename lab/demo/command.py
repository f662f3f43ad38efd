"""The command itself: options in, an exit status out.

Knows which stages there are; everything else is theirs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from .. import stopping
from .screen import Screen
from .story import MIB, Ending, Script, play

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from .stage import Stage


NEXT = """
Next:
  {program} demo --first 1 --raised 40
  make report          the same on a page, with charts
  docs/first-hour.md   beside brokers of your own"""
EMBEDDED_HINT = "\n(`throttle-sidecar demo --kafka embedded` needs neither Java nor Maven.)"


class Quota(click.FloatRange):
    """A number that a quota can be. A range alone lets `nan` through, which is below no bound, and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"expected a finite number of MiB/s, found {value}", param, ctx)
        return found


@click.command("demo", short_help="See a move throttled on this machine, live.")
@click.option(
    "--kafka",
    type=click.Choice(["3.9", "embedded"]),
    default="3.9",
    show_default=True,
    help="3.9: three real brokers (needs Java 17 and Maven). embedded: a leader and a follower of our own.",
)
@click.option("--mib", type=click.IntRange(8, 4096), default=96, show_default=True, help="How much to move, MiB.")
@click.option("--first", type=Quota(0.25), default=4.0, show_default=True, help="First quota, MiB/s.")
@click.option("--raised", type=Quota(0.25), default=16.0, show_default=True, help="Later quota, MiB/s.")
@click.option(
    "--journal",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the sidecars' journals there, for `python -m pipeline` (docs/pipeline.md).",
)
@click.option(
    "--security",
    type=click.Choice(["plaintext", "mtls", "sasl_ssl", "sasl_plaintext"]),
    default="plaintext",
    show_default=True,
    help="How the real brokers speak to each other, and the sidecars with them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object at the end.")
def command(
    *, kafka: str, mib: int, first: float, raised: float, journal: Path | None, security: str, as_json: bool
) -> None:
    """Fill a topic, move its replicas to another broker under a quota, raise the quota on the way.

    Everything runs on loopback addresses of this machine and is gone afterwards, on Ctrl-C too. Takes about half
    a minute. Ends with what passed under each quota and checks that nothing was lost.

    \b
    Examples:
      throttle-sidecar demo
      throttle-sidecar demo --kafka embedded --mib 32
      throttle-sidecar demo --first 1 --raised 40 --json | tail -n 1
      throttle-sidecar demo --security mtls
    """
    console = Console(stderr=as_json)
    script = Script(first=first * MIB, raised=raised * MIB, patience_seconds=60 + 2 * mib / min(first, raised))
    stage = partial(_stage(kafka, security), mib * MIB, console, journal=journal)
    ending, failures = stopping.run(partial(_run, stage, script, console))
    if failures:
        raise click.ClickException("\n".join(failures) + ("" if kafka == "embedded" else EMBEDDED_HINT))
    if ending is None:
        raise click.Abort
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(ending)))
    else:
        console.print(NEXT.format(program=sys.argv[0]), highlight=False)
    if not ending.well:
        raise click.ClickException("a check failed; see above")


async def _run(make: Callable[[], AbstractAsyncContextManager[Stage]], script: Script, console: Console) -> Ending:
    async with make() as stage:
        with Screen(console) as screen:
            ending = await play(stage, script, screen)
        screen.end(ending)
        return ending


def _stage(kafka: str, security: str) -> Callable[..., AbstractAsyncContextManager[Stage]]:
    if kafka == "embedded" and security != "plaintext":
        raise click.UsageError("--security is for real brokers: the embedded leader and follower speak plaintext")
    if kafka == "embedded":
        from .own import own_stage

        return own_stage
    from ..brokers.security import Security
    from .brokers import brokers_stage

    return partial(brokers_stage, security=Security(security))
