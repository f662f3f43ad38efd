"""The one error of this package: the peer sent something that is not the Kafka protocol.

Must not know who the peer is or what happens next. Invariant: whatever bytes go in, a value comes out or
this is raised, nothing else.
"""

from __future__ import annotations


class ProtocolError(ValueError):
    """The bytes break the wire format; the message says where, and never quotes the bytes themselves."""
