"""Moved to `admission.turns`. Here until the throttle imports it from there."""

from __future__ import annotations

from admission.turns import Claim

__all__ = ["Claim"]
