"""Builds `/throttle`, `/config` and `/readyz`: the state of both roles as JSON, for `status` and for operators.

Reads the throttles, decides nothing. Time is an argument. Invariant: every number is bytes, seconds or messages, and
says which in its key; unlimited is null.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Generator
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..config.settings_values import Address
from ..diagnostics.replica_stats import ReplicaStats
from ..diagnostics.role_rates import RoleRates
from ..quotas.keys import CLIENT_RATES, OF_CLIENTS
from ..roles import Role
from .client_metrics import client_states
from .throttle_page import (
    BoundChangeState,
    BoundState,
    ChangeState,
    JournalState,
    OverriddenState,
    OverrideState,
    Page,
    PassingState,
    QuotasState,
    RateState,
    RoleChangeState,
    RoleState,
    ThrottledBytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..clients.throttle import ClientThrottle
    from ..config.settings import Settings
    from ..diagnostics.conditions import Condition
    from ..journal.writer import JournalStatistics
    from ..quota_files.reload import QuotaWatch
    from ..quotas import Change, RateSource, RoleQuota
    from ..quotas.client_rates import ClientRates
    from ..quotas.finer_rates import FinerRates
    from ..quotas.keys import QuotaKey
    from ..rates.choice import Choice
    from ..throttle.role_throttle import RoleThrottle

Steps = Generator[None, None, dict[str, Any]]
"""A page that is worked out in steps: it yields every 0.1 ms or so, wherever there may be much to say."""
_LISTS_A_STEP = 20


class StatusPage:
    """Builds the pages about both roles, the configuration and readiness."""

    def __init__(
        self,
        settings: Settings,
        quota_watch: QuotaWatch,
        throttles: Mapping[Role, RoleThrottle],
        *,
        version: Callable[[], str] = str,
        journal: JournalStatistics | None = None,
        passing: Callable[[Role], RoleRates] = lambda _: RoleRates(),
        replica_stats: Callable[[Role, float], ReplicaStats] = lambda _, __: ReplicaStats(),
        conditions: Callable[[], tuple[Condition, ...]] = lambda: (),
        chosen: Callable[[Role], Choice | None] = lambda _: None,
        clients: ClientThrottle | None = None,
    ) -> None:
        self._settings = settings
        self._watch = quota_watch
        self._throttles = throttles
        self._version = version
        self._journal = journal
        self._passing = passing
        self._replica_stats = replica_stats
        self._conditions = conditions
        self._chosen = chosen
        self._clients = clients

    def throttle(self, now: float) -> Generator[None, None, Page]:
        """Return the page `status` shows; `now` is the monotonic clock of the throttles."""
        ahead = self._watch.upcoming
        next_change = None if ahead is None else (yield from _change(ahead))
        overrides = yield from _overrides(self._watch)
        return Page(
            broker=self._settings.broker.id,
            version=self._version(),
            policy=self._settings.quotas.policy.value,
            enforce=self._watch.current.enforce,
            quotas=self._reloads(next_change, overrides),
            journal=None if self._journal is None else JournalState(self._journal.lines, self._journal.dropped),
            roles={role.value: self._role(role, throttle, now) for role, throttle in self._throttles.items()},
            clients=() if self._clients is None else tuple(client_states(self._clients, now)),
            client_settings=_client_settings(self._watch.current.clients),
            listener_bytes_per_second=_finite(self._watch.current.listener_bytes_per_second),
            conditions=self._conditions(),
        )

    def _role(self, role: Role, throttle: RoleThrottle, now: float) -> RoleState:
        statistics, replica_stats = throttle.statistics, self._replica_stats(role, now)
        until = self._watch.current.until.get(role)
        if throttle.quota.bytes_per_second == 0 and throttle.enforce:
            replica_stats = _standing_still(replica_stats)
        return RoleState(
            quota_bytes_per_second=_finite(throttle.quota.bytes_per_second),
            rate_bytes_per_second=throttle.rate.measure(now),
            throttled_bytes_total=ThrottledBytes(
                in_sync=statistics.throttled_bytes_in_sync, catching_up=statistics.throttled_bytes_catching_up
            ),
            omitted_partitions_total=statistics.omitted_partitions,
            substituted_partitions_total=statistics.substituted_partitions,
            withheld_bytes_total=statistics.withheld_bytes,
            local_answers_total=statistics.local_answers,
            connections=statistics.connections,
            connections_without_fetches=max(statistics.connections - replica_stats.fetching, 0),
            held_requests=statistics.held_requests,
            lag_messages=replica_stats.lag_messages,
            lag_bytes=replica_stats.lag_bytes,
            rate=_rate_state(throttle.quota.source, self._chosen(role)),
            eta_seconds=replica_stats.eta_seconds,
            until=None if until is None else until.astimezone(UTC),
            undecoded=dict(statistics.undecoded),
            fetch_versions={str(version): count for version, count in statistics.fetch_requests.items()},
            passing_bytes_per_second=PassingState(*self._passing(role)),
            behind_in_need=dict(replica_stats.in_need),
            bounds=tuple(_bounds(throttle, now)),
            lowered_seconds=now - throttle.lowered_at,
            served=(self._settings.ingress if role is Role.LEADER else self._settings.egress) is not None,
            links=replica_stats.links,
            partitions=replica_stats.partitions,
        )

    def config(self) -> Steps:
        """Return the configuration in effect, without its secrets."""
        settings, quotas = self._settings, self._watch.current
        replicas = {}
        overrides = yield from _overrides(self._watch)
        for role in Role:
            replicas[role] = yield from _listed(quotas.of(role))
        return {
            "file": str(settings.path),
            **{
                field.name: _written(getattr(settings, field.name))
                for field in dataclasses.fields(settings)
                if field.name != "path"
            },
            "effective_quotas": {
                "hash": quotas.hash,
                "enforce": quotas.enforce,
                "overrides": msgspec.to_builtins(overrides),
                **{
                    role.value: {
                        "bytes_per_second": _finite(self._throttles[role].quota.bytes_per_second),
                        **_source(quotas.of(role)),
                        **_finer(quotas.of(role)),
                        "replicas": replicas[role],
                    }
                    for role in Role
                },
                "listener_bytes_per_second": _finite(quotas.listener_bytes_per_second),
                "clients": {
                    key.name: {name: _in_json(key, value) for name, value in quotas.clients.by_label(key).items()}
                    for key in OF_CLIENTS
                },
            },
        }

    def readiness(self, *, draining: bool) -> tuple[bool, dict[str, Any]]:
        """Return readiness: true until a drain begins. Conditions are named only: if the sidecar were not ready for
        one, a broker would lose its replication path."""
        told = [msgspec.to_builtins(each) | {"text": each.sentence} for each in self._conditions()]
        return not draining, {"reasons": ["draining"] if draining else [], "conditions": told}

    def _reloads(self, next_change: ChangeState | None, overrides: tuple[OverrideState, ...]) -> QuotasState:
        reloads = self._watch.statistics
        return QuotasState(
            hash=self._watch.current.hash,
            source=self._watch.source.value,
            last_reload_successful=reloads.last_reload_successful,
            last_error=reloads.last_error and reloads.last_error.replace("\n", "; "),
            last_success_timestamp_seconds=reloads.last_success_timestamp_seconds,
            next_change=next_change,
            overrides=overrides,
        )


def _standing_still(replica_stats: ReplicaStats) -> ReplicaStats:
    """Return it without any time left: at a quota of 0 nothing catches up, and the average by which a lag shrinks takes
    minutes to fade."""
    links = tuple(
        dataclasses.replace(link, eta_seconds=None) if link.lag_messages else link for link in replica_stats.links
    )
    return dataclasses.replace(
        replica_stats, eta_seconds=None if replica_stats.lag_messages else replica_stats.eta_seconds, links=links
    )


def _overrides(watch: QuotaWatch) -> Generator[None, None, tuple[OverrideState, ...]]:
    found = []
    for override, effective in watch.overridden():
        changed = (
            OverriddenState(change.place, change.key, own.value, hidden.value, hidden.layer)
            for change, own, hidden in effective
        )
        found.append(OverrideState(override.id, override.by, override.label, override.until, tuple(changed)))
        yield
    return tuple(found)


def _bounds(throttle: RoleThrottle, now: float) -> Iterator[BoundState]:
    for node in throttle.tree.inner.values():
        yield BoundState(
            *node.entity, node.bytes_per_second, node.rate.measure(now), throttled_bytes_total=node.passed_bytes
        )


def _source(quota: RoleQuota) -> dict[str, str]:
    return {} if quota.source is None else {"rate_source": str(quota.source)}


def _finer(quota: RoleQuota) -> dict[str, dict[str, float]]:
    bounds = {str(entity): rate for entity, rate in quota.finer.bounds()}
    return {"finer_bytes_per_second": bounds} if bounds else {}


def _rate_state(source: RateSource | None, choice: Choice | None) -> RateState | None:
    if source is None:
        return None
    if choice is None:
        return RateState(str(source), source.least, source.most)
    return RateState(
        str(source),
        source.least,
        source.most,
        held_by=choice.held_by,
        reason=choice.words,
        finish_by=choice.finish_by,
        needed_bytes_per_second=choice.needed_bytes_per_second,
        late=choice.late,
    )


def _change(change: Change) -> Generator[None, None, ChangeState]:
    """Yield the next scheduled changes."""
    roles = {}
    for role in Role:
        after, before = change.after.of(role), change.before.of(role)
        differ = (yield from _listed(after)) != (yield from _listed(before))
        source = None if after.source is None else str(after.source)
        roles[role.value] = RoleChangeState(
            _finite(after.bytes_per_second),
            replicas_change=differ,
            rate_source=source,
            bounds=tuple(_bound_changes(before.finer, after.finer)),
        )
    return ChangeState(change.at.astimezone(UTC), change.after.enforce, roles)


def _bound_changes(before: FinerRates, after: FinerRates) -> Iterator[BoundChangeState]:
    for entity in dict(before.entries()) | dict(after.entries()):
        old, new = before.in_words(entity), after.in_words(entity)
        if old != new:
            yield BoundChangeState(*entity, old, new)


def _listed(quota: RoleQuota) -> Steps:
    """Yield the result of `RoleQuota.listed` in steps: 5000 topics take 13 ms."""
    written = {}
    for number, (name, partitions) in enumerate(quota.lists().items()):
        written[name] = str(partitions)
        if number % _LISTS_A_STEP == 0:
            yield
    return written


def _written(value: Any) -> Any:
    """Return a setting as an operator writes it: addresses as host:port, not as a pair."""
    if isinstance(value, Address | Path):
        return str(value)
    if isinstance(value, enum.IntEnum):
        return value.name
    if dataclasses.is_dataclass(value):
        return {
            field.name: _written(getattr(value, field.name)) if field.repr else "hidden"
            for field in dataclasses.fields(value)
        }
    return [_written(item) for item in value] if isinstance(value, tuple) else value


def _client_settings(rates: ClientRates) -> dict[str, dict[str, str]]:
    keys = [key for key in OF_CLIENTS if key.beside is None and key not in CLIENT_RATES.values()]
    return {key.name: words for key in keys if (words := rates.in_words(key))}


def _in_json(key: QuotaKey[Any], value: Any) -> float | str | None:
    return _finite(value) if key in CLIENT_RATES.values() else key.in_words(value, 0)


def _finite(bytes_per_second: float) -> float | None:
    return None if math.isinf(bytes_per_second) else bytes_per_second
