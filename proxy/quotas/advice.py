"""Finds quotas that are valid and hardly meant: the warnings of ``check`` (`advise`), and what in a running sidecar has
no effect at all (`without_effect`), which ``set`` says, and what is wrong with a sidecar.

A quotas.toml may be many brokers', so it is nothing that a list names other brokers, or a rate another role: only
``check`` mentions it. Pure; time is an argument. Invariant: a warning names the key path or role it is about and what
follows from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..roles import Role
from .finer_rates import PEER, TOPIC
from .keys import RATES, REPLICAS, about_tiny_rate
from .rules import METADATA_TOPIC, RoleQuota, effective
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from .client_entity import ClientEntity
    from .rules import Quotas
    from .sections import Layer, QuotaFile, Section


_NOTHING = "throttles nothing"
_ITSELF = f"is this broker, which replicates nothing from itself: {_NOTHING}"
MAX_WARNINGS = 20
"""The most texts of a role: each topic of a file may have one."""


def advise(quota_file: QuotaFile, broker_id: int, now: datetime, *, roles: Collection[Role] = tuple(Role)) -> list[str]:
    """Return warnings for a broker; `roles` are those its proxy.toml has."""
    quotas = effective(quota_file, broker_id, now)
    warnings = [] if quotas.enforce else ["mode.enforce is false: quotas are observed, not enforced"]
    for section in quota_file.base.sections():
        warnings += _about_section(section, broker_id, now)
    for entity, section in quota_file.base.clients.items():
        warnings += _about_client(entity, section)
    if METADATA_TOPIC in quota_file.base.topics:
        warnings.append(f"{quota_file.base.topics[METADATA_TOPIC].path}: the metadata log is never throttled")
    if quotas.clients and Role.LEADER not in roles:
        warnings.append("clients: quotas are set, but proxy.toml has no [ingress]: they bound nothing here")
    warnings += _about_listener(quotas, roles)
    for role in Role:
        quota, served = quotas.of(role), role in roles
        warnings += _about_lists(role, quota, broker_id) if served else _about_unserved(role, quota)
        warnings += _about_role(role, quota) if served else ()
        warnings += _about_finer(role, quota, broker_id)
        warnings += _about_deadline(role, quotas.of(role), now)
    return warnings


def without_effect(quota_file: QuotaFile, quotas: Quotas, broker_id: int, now: datetime) -> dict[Role, list[str]]:
    """Return the rates that bound nothing for want of a list that selects something, `MAX_WARNINGS` at most a role.
    `quotas`: the effective ones."""
    found = {role: [*_about_lists(role, quotas.of(role), broker_id)] for role in Role}
    for section in quota_file.sections():
        if section.holds(now):
            for role, text in _swapped(section, broker_id):
                found[role].append(text)
    return {role: warnings[:MAX_WARNINGS] for role, warnings in found.items()}


def _about_lists(role: Role, quota: RoleQuota, broker_id: int) -> Iterator[str]:
    """Yield the rates of a role that no list selects."""
    if quota.selects_nothing and not math.isinf(quota.bytes_per_second):
        rate = format_rate(quota.bytes_per_second)
        yield f"{role.value}: a quota of {rate} is set, but no replicas are listed for broker {broker_id}: {_NOTHING}"
    for entity, _ in quota.finer.bounds():
        told = f"{role.value}: {entity}: a rate is set, but no"
        if quota.selects_nothing:
            yield f"{told} replicas are listed: {_NOTHING}"
        elif entity.kind == TOPIC and not _is_listed(entity.name, quota):
            yield f"{told} list selects it: {_NOTHING}"


def about_itself(layer: Layer, broker_id: int) -> Iterator[str]:
    """Yield a warning if a layer has a rate of the traffic with the broker that it is for."""
    section = layer.peers.get(broker_id)
    if section is not None and any(key in section.values for key in RATES.values()):
        yield f"peer {broker_id}: {_ITSELF}"


def _swapped(section: Section, broker_id: int) -> Iterator[tuple[Role, str]]:
    """Yield lists whose entries are broker:partition, as far as can be told."""
    for role, key in REPLICAS.items():
        replicas = section.get(key)
        entries = () if replicas is None else replicas.entries
        if entries and all(partition == broker_id != broker for partition, broker in entries):
            (partition, broker), *_ = entries
            told = f"expected partition:broker, like {broker}:{partition}, found {partition}:{broker}"
            yield role, f"{section.path}.{key.name}: selects nothing here: {told}"


def _about_listener(quotas: Quotas, roles: Collection[Role]) -> Iterator[str]:
    rate, leader = quotas.listener_bytes_per_second, quotas.leader
    if math.isinf(rate):
        return
    told = f"listener.rate: {format_rate(rate)}: "
    if Role.LEADER not in roles:
        yield f"{told}proxy.toml has no [ingress]: it bounds nothing here"
        return
    if leader.selects_nothing:
        yield f"{told}no replicas are listed for the leader: catch-up of followers is not told apart and not held back"
    if leader.source is not None and rate < leader.source.least:
        yield f"{told}less than the leader's min of {format_rate(leader.source.least)}: catch-up may have less than min"
    elif leader.source is None and rate < leader.bytes_per_second < math.inf:
        yield f"{told}less than the leader's quota of {format_rate(leader.bytes_per_second)}, which is never reached"
    yield from _if_tiny("listener.rate", rate)


def _if_tiny(whose: str, bytes_per_second: float) -> Iterator[str]:
    doubt = about_tiny_rate(bytes_per_second)
    if doubt is not None:
        yield f"{whose}: {doubt}"


def _about_finer(role: Role, quota: RoleQuota, broker_id: int) -> Iterator[str]:
    for entity, rate in quota.finer.bounds():
        told = f"{role.value}: {entity}: "
        if entity == (PEER, str(broker_id)):
            yield f"{told}{_ITSELF}"
        if rate > quota.bytes_per_second and quota.source is None:
            yield f"{told}its rate of {format_rate(rate)} is more than the role's: the role's is what holds"
        yield from _if_tiny(f"{role.value}: {entity}", rate)
        if rate == 0:
            yield f"{told}the rate is 0: its catch-up stops until it is raised"


def _is_listed(topic: str, quota: RoleQuota) -> bool:
    """Return True if a list selects any partition of the topic. Of a glob this is not worked out, and counts as true: a
    glob that has a rate may match topics that another glob lists."""
    return any(each in topic for each in "*?[") or bool(quota.partitions_of(topic))


def _about_deadline(role: Role, quota: RoleQuota, now: datetime) -> Iterator[str]:
    deadline = None if quota.source is None else quota.source.deadline
    if deadline is not None and deadline.at is not None and deadline.at <= now:
        yield (
            f"{role.value}: the time {deadline} has passed: whatever falls behind goes at up to "
            f"{format_rate(quota.bytes_per_second)}"
        )


def _about_section(section: Section, broker_id: int, now: datetime) -> Iterator[str]:
    if not section.holds(now):
        yield f"{section.path}: until {section.until} has passed, the section does not count"
    swapped = dict(_swapped(section, broker_id))
    yield from swapped.values()
    for role, key in REPLICAS.items():
        replicas = section.get(key)
        brokers = [] if replicas is None else sorted({broker for _, broker in replicas.entries})
        if brokers and broker_id not in brokers and role not in swapped:
            named = ", ".join(map(str, brokers))
            yield (
                f"{section.path}.{key.name}: names broker {named}, "
                f"not {broker_id}: selects nothing here (partition:broker, the broker that throttles)"
            )


def _about_client(entity: ClientEntity, section: Section) -> Iterator[str]:
    if entity.doubt is not None:
        yield f"{section.path}: {entity.doubt}"
    for key, value in section.values.items():
        doubt = key.doubt(value)
        if doubt is not None:
            yield f"{section.path}.{key.name}: {doubt}"


def _about_unserved(role: Role, quota: RoleQuota) -> Iterator[str]:
    if not math.isinf(quota.bytes_per_second):
        table = "ingress" if role is Role.LEADER else "egress"
        yield f"{role.value}: a quota is set, but proxy.toml has no [{table}]: throttles nothing here"


def _about_role(role: Role, quota: RoleQuota) -> Iterator[str]:
    if quota.selects_nothing:
        return
    if math.isinf(quota.bytes_per_second) and not quota.finer:
        yield f"{role.value}: replicas are listed, but no rate is set: counted, not throttled"
    yield from _if_tiny(role.value, quota.bytes_per_second)
    if quota.bytes_per_second == 0:
        yield f"{role.value}: the quota is 0: catch-up of the listed replicas stops until it is raised"
