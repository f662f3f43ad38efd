"""``completion``: the script that makes a shell complete commands, options, keys, brokers and topics.

The script is click's own. Invariant: what it prints, the shell can source.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "throttle-sidecar"
_VARIABLE = "_THROTTLE_SIDECAR_COMPLETE"
"""What the script sets to ask for completions; click derives it from the program's name."""


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that makes SHELL complete this program: commands, options, and for set the keys, and the brokers
    and topics that quotas.toml has.

    \b
    Examples:
      eval "$(throttle-sidecar completion bash)"                   in ~/.bashrc (bash 4.4 or later)
      eval "$(throttle-sidecar completion zsh)"                    in ~/.zshrc, after compinit
      throttle-sidecar completion fish > ~/.config/fish/completions/throttle-sidecar.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"{shell}: expected bash, zsh or fish")
    click.echo(found(ctx.find_root().command, {}, _PROGRAM, _VARIABLE).source())
