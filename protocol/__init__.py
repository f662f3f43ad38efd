"""Kafka's wire format as values, sans-I/O: bytes in, values or ProtocolError out.

Five nouns. A *frame* is a message without its length prefix. A *head* is a request's header. A *layout* is
one message in one version, a Construct Struct made from a table of fields. A *walker* is a fast parser
generated from a layout. An *entry* is what a message says about one partition.

Must not know sockets, clocks, logs, threads or files.
"""

from __future__ import annotations

from .correlation import Correlator, expects_response
from .errors import ProtocolError
from .fetch import SUPPORTED_FETCH_VERSIONS
from .fetch_request import (
    FetchRequest,
    parse_fetch_request,
    peek_replica_id,
    rebuild_fetch_request,
)
from .fetch_response import (
    ReplayedEntry,
    empty_fetch_response,
    first_batch_size,
    replayed_topics,
    topic_count_at,
)
from .framing import frame_size
from .headers import RequestHead, peek_correlation_id, peek_request
from .walker import RequestEntry, ResponseEntry, response_walker, walk_whole

__all__ = [
    "ProtocolError",
    "frame_size",
    "RequestHead",
    "peek_request",
    "peek_correlation_id",
    "Correlator",
    "expects_response",
    "SUPPORTED_FETCH_VERSIONS",
    "FetchRequest",
    "RequestEntry",
    "parse_fetch_request",
    "peek_replica_id",
    "rebuild_fetch_request",
    "ReplayedEntry",
    "ResponseEntry",
    "empty_fetch_response",
    "first_batch_size",
    "replayed_topics",
    "response_walker",
    "topic_count_at",
    "walk_whole",
]
