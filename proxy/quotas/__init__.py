"""Quotas: what the operator wants, per role, broker and topic.

The nouns: a *quotas file* has *sections* (`Section`), of brokers and topics, with Kafka's own keys; a
*replica list* (`ReplicaList`) says which partitions; for one broker at one moment they give one immutable
`Quotas`, with a `RoleQuota` for each role. Pure but for `load_quotas_file`; no Trio, no clock.
"""

from .advice import advise
from .file import load_quotas_file
from .replicas import EVERY_PARTITION, NO_PARTITION, Partitions, ReplicaList, parse_replicas
from .rules import METADATA_TOPIC, Quotas, RoleQuota, broker_sections, effective
from .sections import RATE_KEYS, REPLICAS_KEYS, QuotaFile, Section, parse_quotas
from .units import format_bytes, format_rate, parse_rate, parse_size, shown

__all__ = [
    "Quotas",
    "RoleQuota",
    "effective",
    "METADATA_TOPIC",
    "broker_sections",
    "advise",
    "QuotaFile",
    "Section",
    "parse_quotas",
    "load_quotas_file",
    "RATE_KEYS",
    "REPLICAS_KEYS",
    "ReplicaList",
    "Partitions",
    "EVERY_PARTITION",
    "NO_PARTITION",
    "parse_replicas",
    "format_bytes",
    "format_rate",
    "parse_rate",
    "parse_size",
    "shown",
]
