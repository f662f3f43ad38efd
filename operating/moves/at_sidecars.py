"""``plan --apply``: the throttle of a move as one override at each sidecar concerned, decreases first.

Blocking. Invariant: a broker of the move for which no sidecar is named is an error before anything is changed; one
whose sidecar does not answer is named, and the exit status shows it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from proxy.control.override_routes import PATH
from proxy.errors import ConfigurationError
from proxy.quotas.override import new_id

from ..overriding.members import at_all, author, get, post
from ..overriding.words import brokers, error_lines, result_lines
from .applying import Effective, changes_of, effective_of, lowers, warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reassignment import Throttle

    from ..overriding.members import Member, Reply


class Application(NamedTuple):
    """The result: lines for the operator, and whether every sidecar concerned has it in force."""

    lines: list[str]
    is_complete: bool


def apply(
    found: Throttle, members: Sequence[Member], *, label: str, reason: str, until: datetime | None, where: str
) -> Application:
    """Make the overrides. Raises ConfigurationError: nothing has been changed."""
    now = datetime.now(UTC)
    asked = at_all(members, partial(get, page=PATH))
    by_broker = {reply.broker: reply.member for reply in asked if reply.broker is not None}
    silent = [reply for reply in asked if reply.error is not None]
    concerned = found.brokers()
    missing = [broker for broker in concerned if broker not in by_broker]
    if missing and not (silent and any(reply.broker is None for reply in silent)):
        raise ConfigurationError(
            f"{brokers(missing)} of the move: no sidecar is named for it: expected one in --fleet or --url"
        )
    answering = {broker: by_broker[broker] for broker in concerned if broker not in _ids(silent) | set(missing)}
    states, unreadable = _states(answering)
    new = {"id": new_id(), "label": label, "by": author(), "until": until, "reason": reason}

    def told(broker: int) -> Reply:
        changes = changes_of(found, broker, states[broker])
        return post(answering[broker], PATH, {**new, "changes": changes})

    falling = [broker for broker in states if lowers(found, broker, states[broker])]
    replies = [*at_all(falling, told), *at_all([each for each in states if each not in falling], told)]
    lines = [*result_lines(replies, now), *error_lines([*[r for r in silent if r.broker in concerned], *unreadable])]
    made = {broker: answering[broker] for broker in states}
    after, _ = _states(made)
    for broker in sorted(after):
        lines += [f"warning: {warning}" for warning in warnings(found, broker, after[broker])]
    if any(reply.error is None for reply in replies):
        lines.append(f"undo: throttle-sidecar undo {new['id']}{where}")
    complete = len(replies) == len(concerned) and all(
        reply.error is None and (reply.answer or {}).get("in_force") for reply in replies
    )
    return Application(lines, complete)


def _ids(replies: Sequence[Reply]) -> set[int | None]:
    return {reply.broker for reply in replies}


def _states(answering: dict[int, Member]) -> tuple[dict[int, Effective], list[Reply]]:
    """Return what each sidecar throttles now, and the replies of those that do not say it."""
    replies = at_all(list(answering.values()), partial(_config))
    states, unreadable = {}, []
    for broker, reply in zip(answering, replies, strict=True):
        try:
            states[broker] = effective_of(reply.answer or {})
        except (KeyError, TypeError, ValueError):
            unreadable.append(reply if reply.error else reply._replace(error="its /config is not a sidecar's"))
    return states, unreadable


def _config(member: Member) -> Reply:
    return get(member._replace(broker=None), "/config")
