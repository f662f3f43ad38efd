"""`throttle-sidecar demo`: a move under a quota, raised while it runs, watched live and checked at the end.

- **Stage** (`stage`): what is set up, moved and checked; real brokers (`brokers`) or our own two ends (`own`).
- **Story** (`story`): what happens when, and what it amounts to; the same for every stage.
- **Screen** (`screen`): how it looks, live on a terminal, as plain lines elsewhere.
"""

from .command import command

__all__ = ["command"]
