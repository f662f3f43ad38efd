"""Finds settings of quotas.toml that are valid and hardly meant: the warnings of ``check``.

Pure; time is an argument. Invariant: a warning names the key path or role it is about and what follows from
it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..roles import Role
from .finer_rates import TOPIC
from .keys import REPLICAS, about_tiny_rate
from .rules import METADATA_TOPIC, RoleQuota, effective
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from .client_entity import ClientEntity
    from .rules import Quotas
    from .sections import QuotaFile, Section


def advise(quota_file: QuotaFile, broker_id: int, now: datetime, *, roles: Collection[Role] = tuple(Role)) -> list[str]:
    """Return warnings for one broker; `roles` are those its proxy.toml has."""
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
        warnings += _about_role(role, quotas.of(role), broker_id, served=role in roles)
        warnings += _about_finer(role, quotas.of(role))
        warnings += _about_deadline(role, quotas.of(role), now)
    return warnings


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


def _about_finer(role: Role, quota: RoleQuota) -> Iterator[str]:
    for entity, rate in quota.finer.bounds():
        told = f"{role.value}: {entity}: "
        if quota.selects_nothing:
            yield f"{told}a rate is set, but no replicas are listed: throttles nothing"
        elif entity.kind == TOPIC and not _is_listed(entity.name, quota):
            yield f"{told}a rate is set, but no list selects it: throttles nothing"
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
    for key in REPLICAS.values():
        replicas = section.get(key)
        brokers = [] if replicas is None else sorted({broker for _, broker in replicas.entries})
        if brokers and broker_id not in brokers:
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


def _about_role(role: Role, quota: RoleQuota, broker_id: int, *, served: bool) -> Iterator[str]:
    unlimited = math.isinf(quota.bytes_per_second)
    if not served:
        if not unlimited:
            table = "ingress" if role is Role.LEADER else "egress"
            yield f"{role.value}: a quota is set, but proxy.toml has no [{table}]: throttles nothing here"
        return
    if quota.selects_nothing and not unlimited:
        yield (
            f"{role.value}: a quota of {format_rate(quota.bytes_per_second)} is set, but no replicas are "
            f"listed for broker {broker_id}: throttles nothing"
        )
    if not quota.selects_nothing and unlimited and not quota.finer:
        yield f"{role.value}: replicas are listed, but no rate is set: counted, not throttled"
    if not quota.selects_nothing:
        yield from _if_tiny(role.value, quota.bytes_per_second)
    if not quota.selects_nothing and quota.bytes_per_second == 0:
        yield f"{role.value}: the quota is 0: catch-up of the listed replicas stops until it is raised"
