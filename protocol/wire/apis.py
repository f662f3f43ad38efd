"""Kafka's API keys: their names, for logs, and the version from which each is flexible (KIP-482).

Must not know any message's fields. Invariant: the table agrees with
org.apache.kafka.common.protocol.ApiKeys, which a test holds it to.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

API_PRODUCE = 0
API_FETCH = 1
API_SHARE_FETCH = 78
API_METADATA = 3
API_CONTROLLED_SHUTDOWN = 7
API_SASL_HANDSHAKE = 17
API_VERSIONS = 18
API_DESCRIBE_CONFIGS = 32
API_SASL_AUTHENTICATE = 36
API_LIST_PARTITION_REASSIGNMENTS = 46

NEVER = 2**15  # above every version an int16 can hold


class Api(NamedTuple):
    """One row of ApiKeys: versions ``flexible_from`` and up carry tagged fields and compact lengths."""

    key: int
    name: str
    flexible_from: int


TABLE = (
    Api(0, "Produce", 9),
    Api(1, "Fetch", 12),
    Api(2, "ListOffsets", 6),
    Api(3, "Metadata", 9),
    Api(4, "LeaderAndIsr", 4),
    Api(5, "StopReplica", 2),
    Api(6, "UpdateMetadata", 6),
    Api(7, "ControlledShutdown", 3),
    Api(8, "OffsetCommit", 8),
    Api(9, "OffsetFetch", 6),
    Api(10, "FindCoordinator", 3),
    Api(11, "JoinGroup", 6),
    Api(12, "Heartbeat", 4),
    Api(13, "LeaveGroup", 4),
    Api(14, "SyncGroup", 4),
    Api(15, "DescribeGroups", 5),
    Api(16, "ListGroups", 3),
    Api(17, "SaslHandshake", NEVER),
    Api(18, "ApiVersions", 3),
    Api(19, "CreateTopics", 5),
    Api(20, "DeleteTopics", 4),
    Api(21, "DeleteRecords", 2),
    Api(22, "InitProducerId", 2),
    Api(23, "OffsetForLeaderEpoch", 4),
    Api(24, "AddPartitionsToTxn", 3),
    Api(25, "AddOffsetsToTxn", 3),
    Api(26, "EndTxn", 3),
    Api(27, "WriteTxnMarkers", 1),
    Api(28, "TxnOffsetCommit", 3),
    Api(29, "DescribeAcls", 2),
    Api(30, "CreateAcls", 2),
    Api(31, "DeleteAcls", 2),
    Api(32, "DescribeConfigs", 4),
    Api(33, "AlterConfigs", 2),
    Api(34, "AlterReplicaLogDirs", 2),
    Api(35, "DescribeLogDirs", 2),
    Api(36, "SaslAuthenticate", 2),
    Api(37, "CreatePartitions", 2),
    Api(38, "CreateDelegationToken", 2),
    Api(39, "RenewDelegationToken", 2),
    Api(40, "ExpireDelegationToken", 2),
    Api(41, "DescribeDelegationToken", 2),
    Api(42, "DeleteGroups", 2),
    Api(43, "ElectLeaders", 2),
    Api(44, "IncrementalAlterConfigs", 1),
    Api(45, "AlterPartitionReassignments", 0),
    Api(46, "ListPartitionReassignments", 0),
    Api(47, "OffsetDelete", NEVER),
    Api(48, "DescribeClientQuotas", 1),
    Api(49, "AlterClientQuotas", 1),
    Api(50, "DescribeUserScramCredentials", 0),
    Api(51, "AlterUserScramCredentials", 0),
    Api(52, "Vote", 0),
    Api(53, "BeginQuorumEpoch", 1),
    Api(54, "EndQuorumEpoch", 1),
    Api(55, "DescribeQuorum", 0),
    Api(56, "AlterPartition", 0),
    Api(57, "UpdateFeatures", 0),
    Api(58, "Envelope", 0),
    Api(59, "FetchSnapshot", 0),
    Api(60, "DescribeCluster", 0),
    Api(61, "DescribeProducers", 0),
    Api(62, "BrokerRegistration", 0),
    Api(63, "BrokerHeartbeat", 0),
    Api(64, "UnregisterBroker", 0),
    Api(65, "DescribeTransactions", 0),
    Api(66, "ListTransactions", 0),
    Api(67, "AllocateProducerIds", 0),
    Api(68, "ConsumerGroupHeartbeat", 0),
    Api(69, "ConsumerGroupDescribe", 0),
    Api(70, "ControllerRegistration", 0),
    Api(71, "GetTelemetrySubscriptions", 0),
    Api(72, "PushTelemetry", 0),
    Api(73, "AssignReplicasToDirs", 0),
    Api(74, "ListClientMetricsResources", 0),
    Api(75, "DescribeTopicPartitions", 0),
    Api(76, "ShareGroupHeartbeat", 0),
    Api(77, "ShareGroupDescribe", 0),
    Api(78, "ShareFetch", 0),
    Api(79, "ShareAcknowledge", 0),
    Api(80, "AddRaftVoter", 0),
    Api(81, "RemoveRaftVoter", 0),
    Api(82, "UpdateRaftVoter", 0),
    Api(83, "InitializeShareGroupState", 0),
    Api(84, "ReadShareGroupState", 0),
    Api(85, "WriteShareGroupState", 0),
    Api(86, "DeleteShareGroupState", 0),
    Api(87, "ReadShareGroupStateSummary", 0),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in TABLE})


def api_name(api_key: int) -> str:
    """Return Kafka's own name of the API, or ``Unknown(<key>)``: fit for a log line, not for a metric label."""
    api = APIS.get(api_key)
    return api.name if api else f"Unknown({api_key})"


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return True if this request and its response use flexible encoding.

    Keys that are not in the table do: every API added since KIP-482 was born flexible.
    """
    api = APIS.get(api_key)
    return api is None or api_version >= api.flexible_from
