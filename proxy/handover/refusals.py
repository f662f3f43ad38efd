"""Words for refused hand-overs, whichever way they were asked for, that name what to do.

The ways: `run --take-over` asks the old process (`new_process`), which judges its question (`old_process`); SIGUSR2,
which a package's upgrade sends as well, has the old process start the new process (`next_process`). Values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .messages import SCHEMA, Hello

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..config.settings import Address
    from .messages import Message

    Listener: TypeAlias = tuple[str, Address]
    """The setting of a listener, and its configured address."""

FIRST_PROCESS = 1
OF_A_CONTAINER = (
    "it is process 1 of a container, which ends with it: start a second container in the same network namespace with "
    "the same [control] directory, by `run --take-over`, or restart this one"
)
INSTEAD = "stop the running sidecar, then start the new one"
NONE_FOUND = (
    "--take-over found no sidecar to replace: one of an older release, or with another [control] directory, has to be "
    "stopped first"
)
OF_BROKERS = ("ingress.", "egress.")
"""The beginnings of the settings of listeners that brokers dial."""
OWN_DIRECTORY = "a sidecar of another cluster needs a [control] directory of its own"


def refuse_process(old: int, new: int | None) -> str | None:
    """Return why the process `new` cannot replace the process `old`.

    Args:
        old: the id of the old process, as its own namespace or the new process shows it.
        new: the id of the new process there, 0 if it is of another namespace; None: a child of the old process.
    """
    return OF_A_CONTAINER if old == FIRST_PROCESS and new != 0 else None


def refuse_hello(hello: Message, *, broker: int) -> str | None:
    """Return why the process that sends this does not get the connections of the sidecar of `broker`."""
    if not isinstance(hello, Hello):
        return f"expected Hello, found {type(hello).__name__}"
    if hello.schema != SCHEMA:
        return f"expected a release that hands over by schema {SCHEMA}, found schema {hello.schema}: {INSTEAD}"
    if hello.broker != broker:
        return f"expected a sidecar of broker {broker}, found one of broker {hello.broker}: {OWN_DIRECTORY}"
    return None


def refuse_listeners(old: Iterable[Listener], new: Sequence[Listener]) -> str | None:
    """Return why a process that listens at `new` does not replace one that listens at `old`: brokers would find nobody.
    Pages may move."""
    for listener in old:
        key, address = listener
        if key.startswith(OF_BROKERS) and not any(is_same_listener(listener, each) for each in new):
            return (
                f"it listens at {address} ({key}), which this proxy.toml does not: to end that listener, {INSTEAD}; "
                f"{OWN_DIRECTORY}"
            )
    return None


def is_same_listener(one: Listener, other: Listener) -> bool:
    """Return True if both are the same listener. The setting's key tells apart addresses without a port alone: it is
    another where a peer before this one has gone."""
    return one[1] == other[1] and (bool(one[1].port) or one[0] == other[0])
