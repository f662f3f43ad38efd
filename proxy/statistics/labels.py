"""The kinds of what is counted; each value is the label of a metric. No I/O."""

from __future__ import annotations

import enum


class Full(enum.Enum):
    """The limit that a connection has reached in flight; the value is the metric's label."""

    REQUESTS = "requests"
    FETCHES = "fetches"
    """The connection has too many fetches in flight whose answers are to be learnt from or edited."""


class Undecoded(enum.Enum):
    """The reason why traffic passed without being understood; the value is the metric's label."""

    TLS = "tls"
    FRAMING = "framing"
    UNSUPPORTED_VERSION = "unsupported_version"
    MALFORMED_REQUEST = "malformed_request"
    MALFORMED_RESPONSE = "malformed_response"
    TOO_MANY_REPLICAS = "too_many_replicas"
    """No more replicas may be remembered, of this connection or of all, so some partitions of a Fetch pass unthrottled.
    A fetch session of too many partitions passes as a whole."""
    MEMORY = "memory"
    """A frame would have to be held until all of it has come, but all connections together already hold as much as they
    may."""
    REQUEST_TOO_LARGE = "request_too_large"
    RESPONSE_TOO_LARGE = "response_too_large"
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    """The lists name topics, and no broker says which topic an id of a Fetch (v13 and later) belongs to."""
