"""Moved to `admission.budget`. Here until the throttle imports it from there."""

from __future__ import annotations

from admission.budget import Budget, Kip73Budget, StrictBudget, Wish

__all__ = ["Budget", "Kip73Budget", "StrictBudget", "Wish"]
