"""``ask``: a question by its name, a sentence for an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..questions import what_happened
from ..questions.asking import QUESTIONS, ask
from ..terminal import printable
from .options import resolved, tables_job
from .quantities import DURATION, MOMENT, SOME_PRICE, SOME_TIME, Moment

if TYPE_CHECKING:
    from ..questions.answer import Answer
    from .options import Job


@click.command("ask", short_help="A question by its name: will-it-finish, was-it-kept, what-rate …")
@click.argument("question", type=click.Choice(QUESTIONS))
@click.option("--at", type=MOMENT, help="what-happened: when; 03:10 (UTC) is the last one recorded.")
@click.option("--around", type=DURATION, default="5m", show_default=True, help="what-happened: before and after it.")
@click.option("--finish-in", type=SOME_TIME, help="what-rate: how long it may take. Default: half as long as it took.")
@click.option("--price", type=SOME_PRICE, help="what-did-it-cost: the price of a GiB between racks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@tables_job
def command(
    job: Job,
    question: str,
    at: Moment | None,
    around: float,
    finish_in: float | None,
    price: float | None,
    *,
    as_json: bool,
) -> None:
    """Answer a question in a sentence, with the number, what it is told from, and what makes it doubtful.

    \b
    will-it-finish   when everybody who is behind has caught up, or what keeps it
    was-it-kept      the bound, in every second and in every eleven
    what-rate        what to set next time, and why
    what-happened    in the minutes around --at
    who-was-starved  which replica stood still while others moved
    which-move-hurt  moves during which quotas gave way or in-sync followers paused
    who-keeps-falling-behind   replicas that fell behind three times or more
    who-never-catches-up       replicas that are no nearer after ten minutes
    how-long-under-replicated  in all, and which partitions for longest
    what-did-it-cost           bytes by topic and by pair of racks, and their --price

    Exit status 0: the answer is good, or there is one. 3: it is bad (broken, never, starved). 4: the journals do not
    say.

    \b
    Examples:
      python -m pipeline ask will-it-finish tables
      python -m pipeline ask what-happened tables --at 03:10
      python -m pipeline ask what-rate tables --since 6h --finish-in 2h --json
    """
    if (question == what_happened.QUESTION) != (at is not None):
        raise click.UsageError(f"expected --at with {what_happened.QUESTION}, and with it alone")
    with job.tables() as found:
        (when,) = resolved(found, at)
        answer = ask(found, question, at=when, finish_in=finish_in, around=round(around), price=price)
    click.echo(json.dumps(answer.as_json(), ensure_ascii=False) if as_json else told(answer))
    click.get_current_context().exit(answer.verdict.value)


def told(answer: Answer) -> str:
    """Return the answer as text."""
    lines = [answer.sentence, *(f"  - {text}" for text in answer.evidence)]
    lines += [f"  but: {text}" for text in answer.uncertainty]
    lines += [f"  do: {answer.command}"] if answer.command else []
    return printable("\n".join(lines))
