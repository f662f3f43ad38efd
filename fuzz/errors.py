"""Failures of the sidecar, as a scene sees them."""

from __future__ import annotations


class NotRecoveredError(Exception):
    """Raised when what was taken away was given back, and the sidecar does not take it."""
