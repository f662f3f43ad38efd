"""The one error of the lab: something outside Python (Java, Maven, a broker, a sidecar) did not do its part.

It must not know any of them. Invariant: the message alone tells what failed and what to do or read next.
"""

from __future__ import annotations


class LabError(RuntimeError):
    """A process of the lab, or what it needs, is missing or failed; the message holds its own last words."""
