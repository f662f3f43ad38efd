"""``check``: are both files right, and what do they mean for this broker? Needs no network unless told to ask.

Invariant: exit status 0 exactly when ``run`` would accept both files, and a sidecar that was to be asked has answered.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from admission.token_bucket import TokenBucket
from proxy.config.settings import Policy, QuotaSettings, Settings
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.reading import is_directory
from proxy.process import open_files
from proxy.quota_files.override_store import load, store_path
from proxy.quota_files.quota_file import load_quotas_file
from proxy.quotas import (
    QuotaFile,
    RoleQuota,
    advise,
    changes_ahead,
    effective,
    format_bytes,
    format_rate,
)
from proxy.quotas.override import layers_of
from proxy.quotas.override_changes import active
from proxy.quotas.priorities import DEFAULT_PRIORITIES
from proxy.roles import Role
from proxy.throttle.role_throttle import AUTO_GATE_SECONDS

from ..asking import refuse_silent_files
from ..configuration import load_configuration
from ..quota_words import differences, format_distance, format_time, parse_moment
from ..terminal import encoded, say, say_json
from .check_sources import Moments, source_lines, source_report, state_of, take_finish_by
from .health import url_of
from .live_check import ask_live, live_lines
from .options import FILE, SIDECAR_URL, config_option, set_option
from .tls_check import keys_lines, keys_report, keys_warnings, load_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from proxy.tls.contexts import Loaded

Json = dict[str, Any]

NOT_REACHABLE = 3
MOST_CHANGES = 4
"""The most changes ahead that are shown."""


@click.command("check", short_help="Validate both files, show the quotas in effect.")
@config_option
@set_option
@click.option(
    "--quotas",
    "quotas_path",
    type=FILE,
    metavar="FILE",
    help="The quotas file, instead of the one that the configuration names.",
)
@click.option("--at", "at", metavar="TIME", help="What would hold then, like 2026-12-01T23:30:00+01:00. Default: now.")
@click.option("--live", is_flag=True, help="Ask the running sidecar too, at http.listen of the configuration.")
@click.option("--url", type=SIDECAR_URL, metavar="URL", help="The same, of the sidecar at this address.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    config_path: Path,
    overrides: tuple[str, ...],
    quotas_path: Path | None,
    at: str | None,
    live: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Validate proxy.toml and quotas.toml and show the quotas in effect for this broker.

    Every problem of both files is listed, with its key and what was expected. Warnings are about what is
    valid and hardly meant, like a rate with no replicas listed. What changes by itself, by an until, is
    listed with its time; --at shows what holds at another one.

    With --live or --url the running sidecar says whether it has this file, and what only it can see: that no broker
    connects though there is a quota, that a list names a topic or partition the cluster does not have, that traffic
    passes which it does not understand. It also knows by when catch-up is to end, if that counts from when it read
    the file.

    Exit status 0: both files are right. 1: one is not. 3: they are, but the sidecar that was to be asked does not
    answer.

    \b
    Examples:
      throttle-sidecar check --config proxy.toml
      throttle-sidecar check --live                              and does it do what is meant?
      throttle-sidecar check --at 2026-12-01T03:30:00+01:00      tonight, after an until has passed?
      throttle-sidecar check --config proxy.toml --quotas quotas.new.toml && mv quotas.new.toml quotas.toml
    """
    try:
        now = datetime.now(UTC)
        moment = now if at is None else _parse_at(at)
        settings, quota_file, path, keys = _load(config_path, overrides, quotas_path)
        moments = Moments(moment, now, state_of(settings, overrides))
        if live or url is not None:
            refuse_silent_files()
    except ConfigurationError as error:
        if not as_json:
            raise
        say_json(encoded({"ok": False, "problems": error.problems}))
        raise click.exceptions.Exit(1) from error
    report = report_on(settings, quota_file, path, moments, keys=keys)
    asked = None
    if live or url is not None:
        asked = ask_live(url or url_of(settings.http), settings.broker.id, quota_file.hash)
        report["live"] = asdict(asked)
        if at is None:
            take_finish_by(report, asked)
    if as_json:
        say_json(encoded(report))
    else:
        say("\n".join(_lines(report) + ([] if asked is None else live_lines(asked))))
    if asked is not None and asked.error is not None:
        ctx.exit(NOT_REACHABLE)


def _parse_at(text: str) -> datetime:
    try:
        return parse_moment(text)
    except InvalidValueError as error:
        raise ConfigurationError(f"--at: {error}") from error


def _load(
    config_path: Path, overrides: tuple[str, ...], quotas_path: Path | None
) -> tuple[Settings, QuotaFile, Path, dict[str, Loaded]]:
    """Both files and the keys, or the problems of all."""
    problems: list[str] = []
    settings = quota_file = None
    keys: dict[str, Loaded] = {}
    try:
        settings = load_configuration(config_path, overrides)
        quotas_path = quotas_path or settings.quotas.file
        problems += _about_journal(settings)
        keys = load_keys(settings)
    except ConfigurationError as error:
        problems += error.problems
    try:
        quota_file = load_quotas_file(quotas_path) if quotas_path is not None else None
    except ConfigurationError as error:
        problems += error.problems
    if settings is None or quota_file is None or quotas_path is None or problems:
        raise ConfigurationError(problems)
    return settings, quota_file, quotas_path, keys


def _with_overrides(broker: int, quota_file: QuotaFile, state: Path, now: datetime) -> tuple[QuotaFile, list[str]]:
    """Return the quotas below the overrides that the sidecar has stored here, and a line for each of those."""
    stored = load(store_path(state, broker), broker)
    lines = [
        f"override {each.id} of {each.by}, {'no end' if each.until is None else f'until {format_time(each.until)}'}: "
        + ", ".join(f"{change} = {change.value}" for change in each.changes[:MOST_CHANGES])
        + (f" and {len(each.changes) - MOST_CHANGES} more" if len(each.changes) > MOST_CHANGES else "")
        for each in active(stored.overrides, now)
    ]
    if stored.problem is not None:
        lines.append(f"overrides: {stored.problem}")
    return replace(quota_file, overrides=layers_of(stored.overrides, broker)), lines


def _about_journal(settings: Settings) -> list[str]:
    """What `run` would refuse of its directory, as far as that is told without writing: it is made if it is not there,
    and who may write there is the sidecar's user, who may be another one."""
    if settings.journal is None:
        return []
    directory = settings.journal.directory
    place = next(each for each in (directory, *directory.absolute().parents) if os.path.lexists(each))
    try:
        if is_directory(place):
            return []
    except ConfigurationError as error:
        return [f"journal.directory: {problem}" for problem in error.problems]
    return [f"journal.directory: expected a directory, found {place}, which is none"]


def report_on(
    settings: Settings, quota_file: QuotaFile, quotas_path: Path, moments: Moments, *, keys: Mapping[str, Loaded] = {}
) -> Json:
    """What ``--json`` prints: sizes in bytes, times in seconds, null for a rate without limit."""
    now = moments.at
    quota_file, overrides = _with_overrides(settings.broker.id, quota_file, moments.state, now)
    quotas = effective(quota_file, settings.broker.id, now)
    served = [role for role in Role if _is_served(role, settings)]
    return {
        "ok": True,
        "config": str(settings.path),
        "quotas_file": str(quotas_path),
        "hash": quotas.hash,
        "broker": settings.broker.id,
        "policy": settings.quotas.policy,
        "enforce": quotas.enforce,
        "overrides": overrides,
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
            for change in islice(changes_ahead(quota_file, settings.broker.id, now), MOST_CHANGES)
        ],
        "roles": {
            role.value: {"served": role in served, **_role(quotas.of(role), settings.quotas, moments)} for role in Role
        },
        "tls": keys_report(keys),
        "warnings": [
            *advise(quota_file, settings.broker.id, now, roles=served),
            *keys_warnings(settings, keys, now),
            *_about_open_files(settings),
        ],
    }


def _about_open_files(settings: Settings) -> Iterator[str]:
    few = open_files.too_few(open_files.limit_of_run(), settings.limits.max_connections)
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
            for entity, rate in quota.finer.said()
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


def _lines(report: Json) -> list[str]:
    lines = [
        f"{report['config']}: ok",
        f"{report['quotas_file']}: ok (hash {report['hash']})",
        "",
        f"broker {report['broker']}, policy {report['policy']}, "
        + ("enforcing" if report["enforce"] else "observing only"),
    ]
    lines += report["overrides"]
    if report["priorities"]["order"] != DEFAULT_PRIORITIES.entries():
        lines.append(f"first of what is behind: {', '.join(report['priorities']['order']) or 'nothing'}")
    for name, role in report["roles"].items():
        lines += ["", *_role_lines(name, role)]
    lines += keys_lines(report["tls"])
    if report["changes"]:
        lines += ["", f"next changes, from {format_time(report['at'])}:"]
    for change in report["changes"]:
        when = f"{format_time(change['at'])} ({format_distance(change['at'], report['at'])})"
        lines.append(f"  {when}: {', '.join(change['what'])}")
    if report["warnings"]:
        lines += ["", *(f"warning: {warning}" for warning in report["warnings"])]
    return lines


def _role_lines(name: str, role: Json) -> list[str]:
    if not role["served"]:
        return [f"{name}: not served (no [{'ingress' if name == Role.LEADER.value else 'egress'}])"]
    rate = role["quota_bytes_per_second"]
    source = role.get("rate_source")
    lines = [f"{name}: {format_rate(math.inf if rate is None else rate)}"]
    if source is not None:
        lines = [f"{name}: sets itself: {source['words']}", *source_lines(source)]
    if "gate_bytes" in role:
        # Of a rate that sets itself they are those of the most that it may be.
        most = "" if source is None else "at most "
        lines.append(f"  gate {most}{_exact(role['gate_bytes'])}, burst {most}{_exact(role['burst_bytes'])}")
    finer = {f"{each['kind']} {each['name']}": each["quota_bytes_per_second"] for each in role.get("finer", ())}
    wide = max(map(len, finer), default=0)
    lines += [f"  {name:{wide}}  {format_rate(math.inf if rate is None else rate)}" for name, rate in finer.items()]
    listed = role["replicas"] or {"*": ""}
    width = max(map(len, listed))
    lines += [f"  {topic:{width}}  {_partitions(partitions)}" for topic, partitions in listed.items()]
    return lines


def _partitions(partitions: str) -> str:
    return {"*": "every partition", "": "no partition"}.get(partitions, f"partition {partitions}")


def _exact(size_bytes: float) -> str:
    return f"{format_bytes(size_bytes)} ({size_bytes:.0f} B)"
