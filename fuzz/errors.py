"""What goes wrong with the sidecar, seen by a scene."""

from __future__ import annotations


class NotRecoveredError(Exception):
    """What was taken away was given back, and the sidecar does not take it."""
