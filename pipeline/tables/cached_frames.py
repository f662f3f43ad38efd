"""Frames that are worked out once for all who read them, and freed at the end.

A frame is only a plan: if two questions read it, Spark works it out twice. It does not notice that both shuffle the
same rows, because each question takes only the columns that it needs. Invariant: nothing is held beyond the `with`
block. A held frame shows the files as they were, and a later job has to read them as they are then.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CachedFrames(ExitStack):
    """Frames that are cached until the end of a `with` block."""

    def once(self, frame: DataFrame) -> DataFrame:
        """Return it, to be worked out when it is first asked of and held from then on: in memory, else on disk."""
        self.callback(frame.unpersist)
        return frame.cache()
