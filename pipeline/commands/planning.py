"""``moves`` and ``replay``: what moved, and what would have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..jobs import partition_sizes as sizes_job
from ..jobs.inner_rates import Inside, inside
from ..jobs.link_ends import REPLICA
from ..jobs.moves import by_source as moves_by_source
from ..jobs.moves import paced, times_behind, unpaced
from ..model.broker_pairs import pairs
from ..model.duration_curve import WhatIf, fluid
from ..model.fluid import LINE_BYTES_PER_SECOND
from ..tables import CachedFrames
from ..terminal import tell
from .options import output_options, put_out, tables_job
from .quantities import RATE, SOME_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..jobs.inner_rates import Bound
    from .options import Job, Output


@click.command("moves", short_help="What moved, how long it took, whose quota set the pace.")
@click.option("--by-source", is_flag=True, help="KIP-73's MoveRatio and MoveTime of each source.")
@output_options
@tables_job
def moves_command(job: Job, output: Output, *, by_source: bool) -> None:
    """List every replica's time behind: from whom, how many bytes, how long, and its bound.

    With --since and --until a move is what there was of it in between.

    \b
    bound  leader       the source's quota set the pace, shared with other destinations
           follower     the destination's quota did, shared with other sources
           independent  a quota did, and nobody shared it
           no quota     neither did
    Example:
      python -m pipeline moves tables --by-source
    """
    with job.tables() as found, CachedFrames() as held:
        rows = paced(held.once(times_behind(found)), found.seconds, found.events)
        if by_source:
            sizes = sizes_job.partition_sizes(held.once(sizes_job.of_tables(found)))
            put_out(moves_by_source(held.once(rows), held.once(sizes)), output)
        else:
            put_out(rows.orderBy("began", *REPLICA), output)


@click.command("replay", short_help="What another quota would have done.")
@click.option("--leader", "leaders", multiple=True, type=RATE, help="A quota of leaders to try; repeatable.")
@click.option("--follower", "followers", multiple=True, type=RATE, help="A quota of followers to try; repeatable.")
@click.option("--both", "both", multiple=True, type=RATE, help="A quota of leaders and followers alike; repeatable.")
@click.option("--line", type=SOME_RATE, default=LINE_BYTES_PER_SECOND, help="What a link can carry. Default: 125MB/s.")
@output_options
@tables_job
def replay_command(
    job: Job,
    leaders: tuple[float, ...],
    followers: tuple[float, ...],
    both: tuple[float, ...],
    line: float,
    output: Output,
) -> None:
    """Tell how long what was recorded takes under other quotas.

    Every --leader, --follower and --both is a scenario. Quotas are shared out as the strict policy does in the mean; a
    broker's own throttle lets a tenth more pass. Rates of peers and racks inside the quotas hold as they did last when
    it was recorded; what the model does not hold to (rates of topics, who goes first) is said.

    \b
    Example:
      python -m pipeline replay tables --leader 20MB/s --leader 50MB/s
    """
    what_ifs = scenarios(leaders=leaders, followers=followers, both=both)
    if not what_ifs:
        raise click.UsageError("expected at least one --leader, --follower or --both to try")
    with job.tables() as found:
        bounds = _bounds(inside(found.events))
        links = [one.stream for one in pairs(unpaced(times_behind(found)))]
        if not links:
            raise InputError(f"{job.path}: nobody was behind: there is nothing to replay")
        tell(f"{len(links)} links")
        shown = fluid(found.spark, links, what_ifs, line_bytes_per_second=line, bounds=bounds)
        put_out(shown.orderBy(*shown.columns[:4]), output)


def scenarios(
    *, leaders: Sequence[float] = (), followers: Sequence[float] = (), both: Sequence[float] = ()
) -> list[WhatIf]:
    """Return one of each rate, however often it is asked for."""
    each = [
        WhatIf(
            f"{role} {int(rate) if rate.is_integer() else rate} B/s",
            None if role == "follower" else rate,
            None if role == "leader" else rate,
        )
        for role, rates in (("leader", leaders), ("follower", followers), ("both", both))
        for rate in rates
    ]
    return [*{one.name: one for one in each}.values()]


def _bounds(found: Inside) -> tuple[Bound, ...]:
    """Print which rates inside the quotas hold in every scenario, and what of them does not."""
    if found.bounds:
        tell(f"in every scenario hold as recorded: {found.in_words()}")
    for text in found.left_out:
        tell(f"left out: {text}")
    return found.bounds
