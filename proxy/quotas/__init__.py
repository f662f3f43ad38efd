"""Quotas as the operator wants them, per role, broker and topic.

The nouns: a *quotas file* has *sections* (`Section`), of brokers, peers, racks and topics, with Kafka's own keys. A
*replica list* (`ReplicaList`) says which partitions are throttled. For one broker at one moment, all of these together
give one immutable `Quotas`, with a `RoleQuota` for each role. Pure but for the time zone database; no Trio, no clock,
no files (`quota_files.quota_file` reads them).
"""

from .advice import advise
from .rate_source import Deadline, RateSource, RateStarts
from .reading import hash_of, parse_quotas
from .replicas import EVERY_PARTITION, NO_PARTITION, Partitions, ReplicaList, parse_replicas
from .rules import METADATA_TOPIC, Change, Quotas, RoleQuota, changes_ahead, effective
from .sections import Layer, QuotaFile, Section
from .units import format_bytes, format_rate, format_span, parse_rate, parse_size, parse_span, shown

__all__ = [
    "Quotas",
    "RoleQuota",
    "effective",
    "METADATA_TOPIC",
    "changes_ahead",
    "Change",
    "advise",
    "QuotaFile",
    "Layer",
    "Section",
    "parse_quotas",
    "hash_of",
    "RateSource",
    "Deadline",
    "RateStarts",
    "parse_span",
    "format_span",
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
