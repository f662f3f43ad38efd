"""``moves`` and ``replay``: what moved, and what would have."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..jobs import partition_sizes as sizes_job
from ..jobs.inner_rates import Bound, Inside, inside
from ..jobs.link_ends import REPLICA
from ..jobs.moves import by_source as moves_by_source
from ..jobs.moves import paced, times_behind, unpaced
from ..model import replay as replay_job
from ..model.broker_pairs import pairs
from ..model.duration_curve import LINE_BYTES_PER_SECOND, exact_cpu_seconds, fluid
from ..model.fluid import Stream
from ..model.simulation import POLICIES, Flow
from ..tables import CachedFrames
from ..units import duration
from .options import output_options, put_out, tables_job, tell
from .quantities import RATE, SOME_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .options import Job, Output

WORTH_TELLING_SECONDS = 30.0
MODELS = ("exact", "fluid")


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


@click.command("replay", short_help="What another quota or policy would have done.")
@click.option(
    "--flow", "flows", multiple=True, metavar="FROM:TO:BYTES", help="A planned flow, in place of TABLES; repeatable."
)
@click.option("--batch", type=RATE, default=1.0, metavar="BYTES", help="The size of a planned flow's batches.")
@click.option("--leader", "leaders", multiple=True, type=RATE, help="A quota of leaders to try; repeatable.")
@click.option("--follower", "followers", multiple=True, type=RATE, help="A quota of followers to try; repeatable.")
@click.option("--both", "both", multiple=True, type=RATE, help="A quota of leaders and followers alike; repeatable.")
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES), default=("strict",))
@click.option("--line", type=SOME_RATE, default=LINE_BYTES_PER_SECOND, help="What a link can carry. Default: 125MB/s.")
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="exact",
    show_default=True,
    help="exact: every fetch, by the sidecar's code. fluid: the strict policy's long run, in no time.",
)
@click.option("--peaks", "show_peaks", is_flag=True, help="Worst windows per broker instead of durations per link.")
@output_options
@functools.partial(tables_job, required=False)
def replay_command(
    job: Job,
    flows: tuple[str, ...],
    batch: float,
    leaders: tuple[float, ...],
    followers: tuple[float, ...],
    both: tuple[float, ...],
    policies: tuple[str, ...],
    line: float,
    model: str,
    output: Output,
    *,
    show_peaks: bool,
) -> None:
    """Run what was recorded, or what is planned, under other quotas, by the sidecar's own admission code.

    Every --leader, --follower and --both is a scenario, under every --policy. The exact model takes 0.2 to 0.3 ms of a
    core for each second of a link, and says before what that comes to; the fluid one shares quotas out as the strict
    policy does in the mean, knows no peaks, and takes seconds for thousands of links. Rates of peers and racks inside
    the quotas hold as they did last when it was recorded; what neither model holds to (rates of topics, who goes first)
    is said. To the exact one a link's recording is one catch-up, begun when its first replica was behind: of several
    choose one by --since and --until. The fluid one tells each by itself.

    \b
    Examples:
      python -m pipeline replay tables --leader 20MB/s --leader 50MB/s
      python -m pipeline replay --flow 101:102:200MB --flow 101:103:200MB --both 300KiB/s
    """
    if (job.path is None) == (not flows):
        raise click.UsageError("expected either TABLES or --flow")
    what_ifs = scenarios(policies, leaders=leaders, followers=followers, both=both)
    if not what_ifs:
        raise click.UsageError("expected at least one --leader, --follower or --both to try")
    if model == "fluid" and (show_peaks or set(policies) != {"strict"}):
        raise click.UsageError("--model fluid is of the strict policy, and has no --peaks")
    with job.session() as spark:
        planned = [_flow(text, round(batch)) for text in flows]
        found = None if job.path is None else job.read(spark)
        bounds = () if found is None else _bounds(inside(found.events))
        if model == "fluid":
            links = [Stream(flow.source, flow.destination, flow.backlog_bytes) for flow in planned]
            if found is not None:
                links = [one.stream for one in pairs(unpaced(times_behind(found)))]
            _tell_number(links, job)
            shown = fluid(spark, links, what_ifs, line_bytes_per_second=line, bounds=bounds)
        else:
            demand = planned if found is None else replay_job.flows_of(replay_job.demand(found.traffic))
            _tell_number(demand, job)
            _tell_cost(demand, what_ifs, line, bounds)
            replayed = replay_job.replay(spark, demand, what_ifs, line_bytes_per_second=line, bounds=bounds)
            shown = replay_job.peaks(replayed) if show_peaks else replay_job.durations(replayed)
        put_out(shown.orderBy(*shown.columns[:4]), output)


def scenarios(
    policies: Iterable[str],
    *,
    leaders: Sequence[float] = (),
    followers: Sequence[float] = (),
    both: Sequence[float] = (),
) -> list[replay_job.WhatIf]:
    """Return each rate under each policy. What is asked for twice is one scenario, since results are told apart by name
    and policy."""
    each = [
        replay_job.WhatIf(
            f"{role} {int(rate) if rate.is_integer() else rate} B/s",
            policy,
            None if role == "follower" else rate,
            None if role == "leader" else rate,
        )
        for policy in policies
        for role, rates in (("leader", leaders), ("follower", followers), ("both", both))
        for rate in rates
    ]
    return [*{(one.name, one.policy): one for one in each}.values()]


def _bounds(found: Inside) -> tuple[Bound, ...]:
    """Print which rates inside the quotas hold in every scenario, and what of them does not."""
    if found.bounds:
        tell(f"in every scenario hold as recorded: {found.in_words()}")
    for text in found.left_out:
        tell(f"left out: {text}")
    return found.bounds


def _tell_cost(flows: list[Flow], what_ifs: list[replay_job.WhatIf], line: float, bounds: tuple[Bound, ...]) -> None:
    """Print the time that the exact model takes, if it is long, before it starts."""
    seconds = exact_cpu_seconds(flows, what_ifs, line_bytes_per_second=line, bounds=bounds)
    if seconds >= WORTH_TELLING_SECONDS:
        tell(f"the exact model takes some {duration(seconds)} of a core for this; --model fluid takes seconds")


def _tell_number(links: Sequence[object], job: Job) -> None:
    """Print how many links there are. Raises InputError if there is none."""
    if not links:
        raise InputError(f"{job.path}: nobody was behind: there is nothing to replay")
    tell(f"{len(links)} links")


def _flow(text: str, batch_bytes: int) -> Flow:
    source, _, rest = text.partition(":")
    destination, _, size = rest.partition(":")
    if not (source and destination and size):
        raise InputError(f"--flow: expected FROM:TO:BYTES, found {text!r}")
    return Flow(source, destination, RATE.convert(size, None, None), batch_bytes=max(batch_bytes, 1))
