"""The command line: which commands there are, and how a wrong input ends them.

Knows each command only by where it is found and imports it when it is used. Invariant: exit code 0 is fine, 1
means the input is wrong (a message on stderr, no traceback), 2 usage.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ConfigurationError
from proxy.logs.terminal_text import printable_lines

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


DISTRIBUTION = "kafka-throttle-sidecar"
PLUGIN_GROUP = "throttle_sidecar.commands"
_BUILT_IN = {
    "run": "operating.commands.run",
    "check": "operating.commands.check",
    "set": "operating.commands.set",
    "undo": "operating.commands.overrides:undo",
    "overrides": "operating.commands.overrides",
    "history": "operating.commands.history",
    "status": "operating.commands.status",
    "health": "operating.commands.health",
    "plan": "operating.commands.plan",
    "verify": "operating.commands.verify",
    "move": "operating.commands.move",
    "fleet": "operating.commands.fleet",
    "guard": "operating.commands.guard",
    "completion": "operating.cli:completion",
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_HELP = """Bound Apache Kafka's replication traffic, live, in bytes per second.

The sidecar stands beside a broker on the replication path. quotas.toml says how much catch-up traffic may
pass, with Kafka's own keys (KIP-73); a change takes effect within 250 ms, without touching the broker.

\b
Examples:
  throttle-sidecar check --config proxy.toml        validate both files, show what holds
  throttle-sidecar run --config proxy.toml          start; SIGHUP reloads, SIGTERM drains
  throttle-sidecar run --config proxy.toml --set http.listen=0.0.0.0:9404
  throttle-sidecar set leader.replication.throttled.rate 20MiB/s --for 2h
  throttle-sidecar undo --last                      revert the newest override
  throttle-sidecar history --since 2h               who changed what
  throttle-sidecar status                           watch it work
  throttle-sidecar status --once --json --url http://127.0.0.1:9404
  throttle-sidecar move move.json --bootstrap kafka-101:9092 --within 2h --fleet fleet.toml
  throttle-sidecar health                           exit 0 if it answers, for a container's health check
  throttle-sidecar guard --after 3s                 lead replication around a dead sidecar

\b
A quotas.toml to start from:
  [brokers.default]
  leader.replication.throttled.rate = "50MiB/s"     what each broker may send
  follower.replication.throttled.rate = "50MiB/s"   what each broker may fetch
  [topics."*"]
  leader.replication.throttled.replicas = "*"
  follower.replication.throttled.replicas = "*"
"""
_PROGRAM = "throttle-sidecar"
_VARIABLE = "_THROTTLE_SIDECAR_COMPLETE"
"""The variable that the script sets to ask for completions; click derives it from the program's name."""
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class LazyCommands(click.Group):
    """Finds a command by name, ours or another package's, and imports it then."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*_BUILT_IN, *sorted(_plugins().keys() - _BUILT_IN.keys())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _BUILT_IN:
            module, _, name = _BUILT_IN[cmd_name].partition(":")
            built_in: click.Command = getattr(importlib.import_module(module), name or "command")
            return built_in
        plugin = _plugins().get(cmd_name)
        return None if plugin is None else _load(plugin)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise click.ClickException(printable_lines(str(error))) from error
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # Wrong files raise ConfigurationError; this is an error of printing, maybe into a file on a full disk.
            why = f"the output cannot be written: {error.strerror}; what was asked for may have been done all the same"
            raise click.ClickException(why) from error
        except click.ClickException as error:
            if error.message.isprintable() or isinstance(error, click.UsageError):
                raise
            shown = click.ClickException(printable_lines(error.message))
            shown.exit_code = error.exit_code  # type: ignore[misc]  # click declares it for classes
            raise shown from error


def _plugins() -> dict[str, EntryPoint]:
    # Read when a command is asked for that is not ours: it takes 50 ms of CPU, which a start need not wait for.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=PLUGIN_GROUP)}


def _load(plugin: EntryPoint) -> click.Command:
    try:
        command: click.Command = plugin.load()
    except (ImportError, AttributeError) as error:
        return _unavailable(plugin, str(error))
    return command


def _unavailable(plugin: EntryPoint, reason: str) -> click.Command:
    """Return a stand-in for a command whose package is not complete, so that ``--help`` still lists it."""

    @click.command(
        plugin.name,
        short_help=f"(cannot be loaded: {reason})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def unavailable() -> None:
        raise click.ClickException(f"{plugin.name} cannot be loaded: {reason}")

    return unavailable


@click.group(cls=LazyCommands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, prog_name="throttle-sidecar")
def cli() -> None:
    """Do nothing: the group only holds its commands."""


def main() -> None:
    """Run the console script."""
    mend_standard_streams()
    try:
        sys.exit(cli(prog_name="throttle-sidecar"))
    finally:
        _forget_unwritten()


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that makes SHELL complete this program: commands, options, and for set the keys, and the brokers
    and topics that quotas.toml has.

    \b
    Examples:
      eval "$(throttle-sidecar completion bash)"                   in ~/.bashrc (bash 4.4 or later)
      eval "$(throttle-sidecar completion zsh)"                    in ~/.zshrc, after compinit
      throttle-sidecar completion fish > ~/.config/fish/completions/throttle-sidecar.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"{shell}: expected bash, zsh or fish")
    click.echo(found(ctx.find_root().command, {}, _PROGRAM, _VARIABLE).source())


def mend_standard_streams() -> None:
    """Open standard streams that are closed; to be called before anything stays open.

    A closed stream becomes /dev/null.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _open_null(number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        # UTF-8 can write every character but lone surrogates; callers must have escaped those before.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="backslashreplace")


def _forget_unwritten() -> None:
    """Send output to /dev/null that a full disk did not take: the interpreter would write it once more at its end,
    fail, and exit with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                _lead_to_null(stream.fileno())


def _open_null(number: int) -> None:
    """Open /dev/null with this number, unless it is in use; a child inherits it."""
    try:
        os.fstat(number)
    except OSError:
        _lead_to_null(number)


def _lead_to_null(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    os.dup2(opened, number)
    if opened != number:
        os.close(opened)
    os.set_inheritable(number, True)  # noqa: FBT003 - it takes no name
