"""Moved to `admission.simple_rate`. Here until the throttle imports it from there."""

from __future__ import annotations

from admission.simple_rate import SimpleRate

__all__ = ["SimpleRate"]
