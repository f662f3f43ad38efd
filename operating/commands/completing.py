"""What a shell may complete in ``set``: its keys, and the brokers and topics that the quotas file already has.

Reads the files that the command line names so far. Invariant: a file that cannot be read completes to nothing,
silently: the shell is waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes
from proxy.quotas.section_reading import SCHEDULES

from ..configuration import DEFAULT_CONFIG, load_configuration
from ..editing.facts import facts
from ..editing.quota_change import DEFAULT_BROKER, KEYS

if TYPE_CHECKING:
    import click


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return [CompletionItem(key) for key in KEYS if key.startswith(incomplete)]


def complete_broker(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return _complete({DEFAULT_BROKER, *_names(ctx, "brokers")}, incomplete)


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return _complete(_names(ctx, "topics"), incomplete)


def complete_peer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return _complete(_names(ctx, "peers") | _names(ctx, "brokers") - {"default"}, incomplete)


def complete_rack(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return _complete(_names(ctx, "racks"), incomplete)


def _complete(names: set[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _names(ctx: click.Context, kind: str) -> set[str]:
    quotas, config = ctx.params.get("quotas_path"), ctx.params.get("config_path") or DEFAULT_CONFIG
    try:
        content = read_bytes(quotas or load_configuration(config).quotas.file)
        places = [path[2:] if path[0] == SCHEDULES else path for path in facts(content)]
    # The second is what is no UTF-8 and no TOML, and a date that is none.
    except (ConfigurationError, ValueError, RecursionError):
        return set()
    names = {str(place[1]) for place in places if len(place) > 1 and place[0] == kind}
    return {name for name in names if name.isprintable()}
