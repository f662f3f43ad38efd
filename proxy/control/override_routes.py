"""Overrides over HTTP: at control.sock for trusted processes, and on the public pages for writers alone.

    GET  /overrides         those that have not ended, the values they hide, and whether each change is effective; and
                            whether the present ones are in force, and why they are not stored if they are not
    POST /overrides         makes an override: {"changes": [{"place", "key", "value"}], and what else `NewOverride` has}
    POST /overrides/undo    removes some: {"id"} or {"label"} or {"last": true}

Invariant: a refused request has changed nothing, and its answer has the expected and the found value.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads the annotations
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from ..errors import ConfigurationError
from ..http.routing import Admit, Answer, Request, Route, json_answer
from ..quotas.override import NothingSelectedError, Override, PlacedValue, Selector, new_id
from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..quota_files.reload import QuotaWatch
    from ..quotas.layer_values import LayerIndex
    from ..quotas.override import Overrides
    from .override_keeper import Applied, OverrideKeeper

PATH, UNDO_PATH = "/overrides", "/overrides/undo"
MAX_BODY_BYTES = 2**20
_READING = trio.CapacityLimiter(1)


class NewOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /overrides."""

    changes: tuple[PlacedValue, ...]
    id: str | None = None
    """The override's id; None: the sidecar chooses."""
    label: str | None = None
    by: str | None = None
    """The author; None: where the request came from."""
    until: datetime | None = None
    reason: str | None = None
    reassignment: str | None = None


_NEW = msgspec.json.Decoder(NewOverride)
_SELECTOR = msgspec.json.Decoder(Selector)


def override_routes(keeper: OverrideKeeper, watch: QuotaWatch, broker_id: int, *, admit: Admit | None) -> list[Route]:
    """Return the routes. `admit` refuses a request that may not change anything; None: all may."""

    async def get(_: Request) -> Answer:
        state = {
            "broker": broker_id,
            "problem": keeper.problem,
            "in_force": keeper.is_in_force,
            "not_stored": keeper.behind,
        }
        work = partial(_page, state, keeper.current, watch.index, watch.now())
        return await in_thread(work, limiter=_READING)

    async def post(request: Request) -> Answer:
        try:
            asked = _NEW.decode(request.body)
            new = Override(
                id=asked.id or new_id(each.id for each in watch.overrides),
                label=asked.label,
                by=_author(asked.by, request),
                since=watch.now(),
                until=asked.until,
                reason=asked.reason,
                reassignment=asked.reassignment,
                changes=asked.changes,
            )
            applied = await keeper.add(new)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            return _refused(400, [f"expected an override as JSON: {error}"])
        except ConfigurationError as error:
            return _refused(400, error.problems)
        return json_answer(200, _answer(applied, broker_id))

    async def undo(request: Request) -> Answer:
        try:
            asked = _SELECTOR.decode(request.body)
            selector = msgspec.structs.replace(asked, by=_author(asked.by, request))
            applied = await keeper.undo(selector)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            return _refused(400, [f"expected which override to undo as JSON: {error}"])
        except NothingSelectedError as error:
            return _refused(404, error.problems)
        except ConfigurationError as error:
            return _refused(400, error.problems)
        return json_answer(200, _answer(applied, broker_id))

    let_in: Admit = admit or (lambda _: None)
    return [
        Route("GET", PATH, get, admit=let_in),
        Route("POST", PATH, post, max_body_bytes=MAX_BODY_BYTES, admit=let_in),
        Route("POST", UNDO_PATH, undo, admit=let_in),
    ]


def _author(said: str | None, request: Request) -> str:
    """Return the author: by their own word, and by the connection's credentials."""
    shown = f"{request.peer} ({request.subject})" if request.subject else request.peer
    return shown if said is None else f"{said} ({shown})"


def _refused(status: int, problems: Sequence[str]) -> Answer:
    return json_answer(status, {"ok": False, "problems": list(problems)})


def _answer(applied: Applied, broker_id: int) -> dict[str, Any]:
    return {
        "ok": True,
        "broker": broker_id,
        "ids": [each.id for each in applied.overrides],
        "in_force": applied.in_force,
        "not_stored": applied.not_stored,
        "warnings": applied.warnings,
        "effects": applied.effects,
    }


def _page(state: Mapping[str, Any], overrides: Overrides, index: LayerIndex, now: datetime) -> Answer:
    """Return the page, with the state of all overrides together. Of ten thousand changes it takes a core some tenths of
    a second: for a thread."""
    written = [_written(each, index, now) for each in overrides]
    return json_answer(200, {**state, "overrides": written})


def _written(override: Override, index: LayerIndex, now: datetime) -> dict[str, Any]:
    """Return the override with the layers' word on each of its changes: `says` is its own, `hides` the next."""
    changes = []
    for change in override.changes:
        is_effective, own, hidden = index.of_override(override.id, change.place, change.key, now)
        changes.append(
            {
                "place": change.place,
                "key": change.key,
                "value": change.value,
                "effective": is_effective,
                "says": own.value,
                "hides": {"value": hidden.value, "layer": hidden.layer},
            }
        )
    return {**msgspec.structs.asdict(override), "changes": changes}
