"""Moved to `admission.token_bucket`. Here until the throttle imports it from there."""

from __future__ import annotations

from admission.token_bucket import TokenBucket

__all__ = ["TokenBucket"]
