"""Kroxylicious, the proxy that understands Kafka: its runtime, started by a class of ours, with and without a filter.

Its jars come from Maven Central, its two classes here are compiled once; both are kept in the lab's cache.
"""

from __future__ import annotations

from .peers import KROXYLICIOUS

__all__ = ["KROXYLICIOUS"]
