"""The lab's own additions to kafka-python, beyond those of the operator's commands (`operating.client.kafka_python`).

Invariant: nothing else in the lab imports it, so that its warnings are dealt with here.
"""

from __future__ import annotations

import warnings

from operating.client.kafka_python import AdminClient as OperatorsClient
from operating.client.kafka_python import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    HostsFileSocket,
    KafkaError,
    NodeNotReadyError,
    UnknownBrokerIdError,
)

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    from kafka import TopicPartition
    from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse, ElectionType
    from kafka.protocol.consumer import OffsetSpec
    from kafka.record.memory_records import MemoryRecords

__all__ = [
    "AdminClient",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigOp",
    "ConfigResource",
    "ConfigResourceType",
    "ElectionType",
    "HostsFileSocket",
    "KafkaError",
    "MemoryRecords",
    "NodeNotReadyError",
    "OffsetSpec",
    "TopicPartition",
    "UnknownBrokerIdError",
]


class AdminClient(OperatorsClient):
    """One that can be told to look for the controller again: by itself it never does when that broker is gone."""

    def forget_controller(self) -> None:
        self._controller_id = None
