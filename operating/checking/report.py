"""The report of ``check``, as JSON and in lines. Pure but for the store of overrides and the kept starts.

Of a rate that sets itself it says above all by when catch-up is to end. A `within` counts from when the sidecar first
read it, which the sidecar keeps where an operator may not be able to look: no time is shown but those that the sidecar
uses; where it is not known here, the report says so. Invariants: both forms say the same; the layer that is shown is
the one that `proxy.quotas.effective` uses.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from admission.token_bucket import TokenBucket
from proxy.config.settings import Policy, QuotaSettings, Settings
from proxy.errors import ConfigurationError
from proxy.files.reading import is_directory
from proxy.process.resources import open_files_limit_of_run, too_few_open_files
from proxy.quota_files.override_store import load, store_path
from proxy.quota_files.quota_file import kept
from proxy.quotas import QuotaFile, RoleQuota, advise, changes_ahead, effective, format_bytes, format_rate
from proxy.quotas.keys import (
    CATCH_UP_ONLY,
    CLIENT_RATES,
    ENFORCE,
    LISTENER_RATE,
    OF_CLIENTS,
    RATES,
    REPLICAS,
    SectionKind,
)
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.names import DEFAULT
from proxy.quotas.override import active, in_order, layer_of
from proxy.quotas.priorities import DEFAULT_PRIORITIES
from proxy.roles import Role
from proxy.throttle.role_throttle import AUTO_GATE_SECONDS

from ..fleet.replies import layer_name
from ..quota_words import differences, format_distance, format_time, source_in_json
from .keys import keys_lines, keys_report, keys_warnings
from .running_state import RunningState, SilentSidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from proxy.quotas import Quotas, RateSource
    from proxy.quotas.keys import QuotaKey
    from proxy.quotas.override import Override
    from proxy.tls.contexts import Loaded


MAX_CHANGES = 4
"""The most changes that are shown: of those ahead, and of an override."""
OVERRIDE = "override "
Json = dict[str, Any]


def report_on(
    settings: Settings,
    quota_file: QuotaFile,
    quotas_path: Path,
    moments: Moments,
    *,
    keys: Mapping[str, Loaded] = {},
    running: RunningState | SilentSidecar | None = None,
) -> Json:
    """Return the document of ``--json``: sizes in bytes, times in seconds, null for a rate without limit. Unless
    `running` has answered, its stored files are read."""
    now = moments.at
    quota_file, overrides = with_overrides(quota_file, moments.state, settings.broker.id, now, running)
    quotas, index = effective(quota_file, settings.broker.id, now), LayerIndex(quota_file, settings.broker.id)
    served, listener_rate = [role for role in Role if _is_served(role, settings)], quotas.listener_bytes_per_second
    return {
        "ok": True,
        "config": str(settings.path),
        "quotas_file": str(quotas_path),
        "hash": quotas.hash,
        "broker": settings.broker.id,
        "policy": settings.quotas.policy,
        "enforce": quotas.enforce,
        "overrides": overrides,
        "asked": running.url if isinstance(running, RunningState) else None,
        "conditions": msgspec.to_builtins(running.conditions) if isinstance(running, RunningState) else (),
        "enforce_layer": layer_report(index, now, SectionKind.MODE.value, ENFORCE),
        "gate_seconds": settings.quotas.gate_seconds,
        "burst_seconds": settings.quotas.burst_seconds,
        "priorities": {
            "order": quotas.priorities.entries(),
            "min_insync_replicas": quotas.priorities.min_insync_replicas,
            "default_replication_factor": quotas.priorities.replication_factor,
        },
        "at": now,
        "changes": [
            {"at": change.at, "what": differences(change.before, change.after)}
            for change in islice(changes_ahead(quota_file, settings.broker.id, now), MAX_CHANGES)
        ],
        "roles": {
            role.value: {
                "served": role in served,
                **_role(quotas.of(role), settings.quotas, moments),
                "layers": _layers(index, role, quotas.of(role), now),
            }
            for role in Role
        },
        "listener": {
            "bytes_per_second": None if math.isinf(listener_rate) else listener_rate,
            "layer": layer_report(index, now, SectionKind.LISTENER.value, LISTENER_RATE),
        },
        "clients": _clients(index, quotas, now),
        "tls": keys_report(keys),
        "warnings": [
            *advise(quota_file, settings.broker.id, now, roles=served),
            *keys_warnings(settings, keys, now),
            *_about_open_files(settings),
        ],
    }


def _clients(index: LayerIndex, quotas: Quotas, now: datetime) -> list[Json]:
    """Return the quotas of clients, each with its layer."""
    catch_up_only = quotas.clients.of_key(CATCH_UP_ONLY)
    found = []
    for key in OF_CLIENTS:
        if key.beside is not None:
            continue
        words = quotas.clients.in_words(key)
        for entity, value in quotas.clients.of_key(key).items():
            layer = layer_report(index, now, str(entity), key)
            each: Json = {"client": entity.label, "key": key.name, "value": words[entity.label], "layer": layer}
            if key in CLIENT_RATES.values():
                each["quota_bytes_per_second"] = None if math.isinf(value) else value
                each["catch_up_only"] = key is CATCH_UP_ONLY.beside and catch_up_only.get(entity, False)
            found.append(each)
    return found


def _about_open_files(settings: Settings) -> Iterator[str]:
    few = too_few_open_files(open_files_limit_of_run(), settings.limits.max_connections)
    if few is not None:
        yield f"started as this command was, run would have {few}"


def _is_served(role: Role, settings: Settings) -> bool:
    return (settings.ingress if role is Role.LEADER else settings.egress) is not None


def _role(quota: RoleQuota, settings: QuotaSettings, moments: Moments) -> Json:
    unlimited = math.isinf(quota.bytes_per_second)
    role: Json = {
        "quota_bytes_per_second": None if unlimited else quota.bytes_per_second,
        "replicas": quota.listed(),
    }
    if quota.finer:
        role["finer"] = [
            {"kind": entity.kind, "name": entity.name, "quota_bytes_per_second": None if math.isinf(rate) else rate}
            for entity, rate in quota.finer.entries()
        ]
    if quota.source is not None:
        role["rate_source"] = source_report(quota.source, moments)
    if settings.policy is Policy.STRICT and not unlimited:
        is_auto = quota.source is not None and quota.source.auto
        bucket = TokenBucket(
            rate=quota.bytes_per_second,
            gate_seconds=min(settings.gate_seconds, AUTO_GATE_SECONDS) if is_auto else settings.gate_seconds,
            burst_seconds=settings.burst_seconds,
            now=0.0,
        )
        role |= {"gate_bytes": bucket.gate_bytes, "burst_bytes": bucket.burst_bytes}
    return role


def _layers(index: LayerIndex, role: Role, quota: RoleQuota, now: datetime) -> Json:
    """Return the layer of the rate, of each list and of each rate inside it, by place."""
    rate, replicas = RATES[role], REPLICAS[role]
    layer = partial(layer_report, index, now)
    globs = dict(quota.globs)
    places = {name: f"topics.{name}" if name != "*" or name in globs else "broker" for name in quota.lists()}
    finer = [f"{entity.kind}s.{entity.name}" for entity, _ in quota.finer.entries()]
    return {
        "rate": layer("broker", rate),
        "replicas": {name: layer(place, replicas) for name, place in places.items()},
        "finer": {place: layer(place, rate) for place in finer},
    }


def report_lines(report: Json) -> list[str]:
    lines = [
        f"{report['config']}: ok",
        f"{report['quotas_file']}: ok (hash {report['hash']})",
        "",
        f"broker {report['broker']}, policy {report['policy']}, "
        + ("enforcing" if report["enforce"] else "observing only")
        + f"  {layer_words(report['enforce_layer'], report['at'])}",
    ]
    lines += report["overrides"]
    if report["priorities"]["order"] != DEFAULT_PRIORITIES.entries():
        lines.append(f"first of what is behind: {', '.join(report['priorities']['order']) or 'nothing'}")
    for name, role in report["roles"].items():
        lines += ["", *_role_lines(name, role, report["at"])]
    listener = report["listener"]
    if listener["bytes_per_second"] is not None:
        layer = layer_words(listener["layer"], report["at"])
        lines += ["", f"listener, clients and followers together: {format_rate(listener['bytes_per_second'])}  {layer}"]
    lines += _client_lines(report["clients"], report["at"])
    lines += keys_lines(report["tls"])
    if report["changes"]:
        lines += ["", f"next changes, from {format_time(report['at'])}:"]
    for change in report["changes"]:
        when = f"{format_time(change['at'])} ({format_distance(change['at'], report['at'])})"
        lines.append(f"  {when}: {', '.join(change['what'])}")
    if report["conditions"]:
        lines += ["", "the running sidecar:"]
    for each in report["conditions"]:
        role = "" if each["role"] is None else f"{each['role']}: "
        lines.append(f"  {role}{each['text'].replace('{count}', str(each['count']))}: {each['do']}")
    if report["warnings"]:
        lines += ["", *(f"warning: {warning}" for warning in report["warnings"])]
    return lines


def _client_lines(clients: list[Json], now: datetime) -> list[str]:
    rows = {}
    for each in clients:
        name = "each other client id" if each["client"] == DEFAULT else each["client"]
        rows[f"{name}  {each['key']}"] = f"{each['value']}  {layer_words(each['layer'], now)}"
    width = max(map(len, rows), default=0)
    return [*(["", "clients:"] if rows else []), *(f"  {name:{width}}  {told}" for name, told in rows.items())]


def _role_lines(name: str, role: Json, now: datetime) -> list[str]:
    if not role["served"]:
        return [f"{name}: not served (no [{'ingress' if name == Role.LEADER.value else 'egress'}])"]
    rate = role["quota_bytes_per_second"]
    source, layers = role.get("rate_source"), role["layers"]
    layer = layer_words(layers["rate"], now)
    lines = [f"{name}: {format_rate(math.inf if rate is None else rate)}  {layer}"]
    if source is not None:
        lines = [f"{name}: sets itself: {source['words']}  {layer}", *source_lines(source)]
    if "gate_bytes" in role:
        # Of a rate that sets itself they are those of the most that it may be.
        most = "" if source is None else "at most "
        lines.append(f"  gate {most}{_exact(role['gate_bytes'])}, burst {most}{_exact(role['burst_bytes'])}")
    rows = {}
    for each in role.get("finer", ()):
        rate, place = each["quota_bytes_per_second"], f"{each['kind']}s.{each['name']}"
        words = layer_words(layers["finer"][place], now)
        rows[f"{each['kind']} {each['name']}"] = f"{format_rate(math.inf if rate is None else rate)}  {words}"
    for topic, partitions in role["replicas"].items():
        rows[topic] = f"{_partitions(partitions)}  {layer_words(layers['replicas'][topic], now)}"
    if not role["replicas"]:
        rows["*"] = "no partition"
    width = max(map(len, rows))
    return [*lines, *(f"  {name:{width}}  {told}" for name, told in rows.items())]


def _partitions(partitions: str) -> str:
    return {"*": "every partition", "": "no partition"}.get(partitions, f"partition {partitions}")


def _exact(size_bytes: float) -> str:
    return f"{format_bytes(size_bytes)} ({size_bytes:.0f} B)"


def with_overrides(
    quota_file: QuotaFile,
    state: Path,
    broker_id: int,
    now: datetime,
    running: RunningState | SilentSidecar | None = None,
) -> tuple[QuotaFile, list[str]]:
    """Return the file below the overrides that the running sidecar goes by, or else those that are stored beside
    `state`; a line for each of them that counts at `now`, and lines that say where they are from, or why they cannot
    be read."""
    if isinstance(running, SilentSidecar):
        found, lines = with_overrides(quota_file, state, broker_id, now)
        unknown = "overrides: a sidecar may run, whose overrides and conditions are not known"
        return found, [*lines, f"{unknown}: {running.error}"]
    if running is not None:
        layers = {each.id: layer_of(each, broker_id) for each in running.overrides}
        lines = [_override_line(each) for each in active(running.overrides, now)]
        asked = replace(quota_file, overrides=in_order(running.overrides, layers))
        return asked, [*lines, f"overrides: as the running sidecar has them ({running.url})"]
    path = store_path(state, broker_id)
    if _is_closed(path.parent):
        return quota_file, [f"overrides: {path}: cannot be read: Permission denied: they are left out here"]
    stored = load(path, broker_id)
    lines = [_override_line(each) for each in active(stored.overrides, now)]
    if stored.problem is not None:
        lines.append(f"overrides: {stored.problem}")
    elif stored.found:
        lines.append(f"overrides: no sidecar answers here; these are stored in {path}")
    return replace(quota_file, overrides=in_order(stored.overrides, stored.layers)), lines


def _is_closed(directory: Path) -> bool:
    """Return True if this user may not look into the directory, or into a parent of it."""
    try:
        return is_directory(directory) and not os.access(directory, os.X_OK)
    except ConfigurationError:
        return True


def _override_line(override: Override) -> str:
    ends = "no end" if override.until is None else f"until {format_time(override.until)}"
    changes = ", ".join(change.text for change in override.changes[:MAX_CHANGES])
    more = len(override.changes) - MAX_CHANGES
    return f"override {override.id} of {override.by}, {ends}: {changes}" + (f" and {more} more" if more > 0 else "")


def layer_report(index: LayerIndex, now: datetime, place: str, key: QuotaKey[Any]) -> Json:
    """Return the layer of an effective value, its end, and the value that an override hides."""
    effective, *below = index.values(place, key.name, now)
    hides = below[0] if below and effective.layer.startswith(OVERRIDE) else None
    return {
        "layer": layer_name(effective.layer),
        "until": effective.until,
        "hides": None if hides is None else {"value": hides.value, "layer": layer_name(hides.layer)},
    }


def layer_words(report: Json, now: datetime) -> str:
    """Return the report for people: ``(override 7f3a12, until …; hides 50.00 MiB/s (52428800 B/s), brokers.101)``."""
    until, hides = report["until"], report["hides"]
    ends = "" if until is None else f", until {format_time(until)}, {format_distance(until, now)}"
    hidden = "" if hides is None else f"; hides {hides['value']}, {hides['layer']}"
    return f"({report['layer']}{ends}{hidden})"


class Moments(NamedTuple):
    """The times that `check` uses.

    `at`: the time that is asked about; `now`: the wall clock's; both with an offset.
    """

    at: datetime
    now: datetime
    state: Path
    """The path of the file in which the sidecar keeps its starts."""


def source_report(source: RateSource, moments: Moments) -> Json:
    """Return the report of a source. `known_from`: the file that keeps the start of a `within`."""
    report = source_in_json(source) | {"finish_by": None, "counts_from": None, "known_from": None}
    if source.deadline is None:
        return report
    if source.start_key is None:
        return report | {"finish_by": source.deadline.moment(moments.at)}
    start = kept(moments.state).starts.get(source.start_key)
    if start is None or start > min(moments.now, moments.at).timestamp():
        unknown = (
            "when it is to end is not known here: it counts from when the sidecar first read this; no such start can "
            f"be read in {moments.state}, and `status` asks the sidecar"
        )
        return report | {"unknown": unknown}
    since = datetime.fromtimestamp(start, UTC)
    return report | {"finish_by": source.deadline.moment(since), "counts_from": since, "known_from": str(moments.state)}


def source_lines(source: Json) -> list[str]:
    """Return lines that say by when catch-up is to end."""
    if "unknown" in source:
        return [f"  {source['unknown']}"]
    if source["finish_by"] is None:
        return []
    known_from, counts_from = source["known_from"], source["counts_from"]
    told = f"  to end by {format_time(source['finish_by'])}"
    if counts_from is None:
        return [told]
    return [f"{told}, counted from {format_time(counts_from)} (kept in {known_from})"]
