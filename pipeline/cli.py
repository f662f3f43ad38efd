"""``python -m pipeline``: the group, and the one place where errors become a line and an exit status.

Invariant: exit status 0 fine, 1 the input is wrong, 2 usage; no traceback for what the person can put right.
"""

from __future__ import annotations

import errno

import click
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from .commands import ask, ingest, measurements, planning, report, stream, upkeep
from .errors import InputError, first_line
from .terminal import forget_unwritten, printable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """Answer questions from the sidecars' journals, by Spark.

    \b
    First    ingest   journals to tables, incrementally
             compact  small files put together, old ones removed
             summarise  what jobs need of whole days, worked out once
             keep     what is older than some days removed
    Look     rates    bytes per second, KIP-73's windowed rate
             audit    was the bound kept, in every window
             lag      how far behind, ETA, stalls and their causes
             moves    what moved, how long it took, whose quota set the pace
    Try      replay   what another quota or policy would have done
    Watch    stream   progress, ETA and stalls as the journals grow
    Tell     ask      a question by its name, answered in a sentence
             report   one HTML page, to forward

    TABLES is what `ingest --into` wrote. Every path may be any that Hadoop understands. Jobs run on this machine's
    cores unless --master (or spark-submit) says otherwise.
    """


COMMANDS = (
    ingest.command,
    upkeep.compact_command,
    upkeep.summarise_command,
    upkeep.keep_command,
    measurements.rates_command,
    measurements.audit_command,
    measurements.lag_command,
    planning.moves_command,
    planning.replay_command,
    stream.command,
    report.command,
    ask.command,
)
for command in COMMANDS:
    group.add_command(command)


def main(arguments: list[str] | None = None) -> int:
    """Run a job; return the exit status."""
    try:
        # What a command returns is nothing, unless it ends by click's own exit: then it is the status.
        status = group.main(arguments, prog_name="python -m pipeline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        return 130
    except InputError as error:
        click.echo(f"error: {printable(str(error))}", err=True)
        return 1
    except (PySparkException, Py4JJavaError) as error:
        click.echo(f"error: {printable(first_line(error))}", err=True)
        return 1
    except OSError as error:
        if error.errno not in _FULL:
            raise
        why = f"the output cannot be written: {error.strerror}; what was asked for may have been done all the same"
        click.echo(f"error: {why}", err=True)
        return 1
    finally:
        forget_unwritten()
    return int(status or 0)
