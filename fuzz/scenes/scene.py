"""The parts that all scenes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..cases.case import Case
    from ..stage.stage import Stage


class Scene(ABC):
    """An attack that is no stream of bytes.

    Args:
        seed: of what is random in it.
        size: how long or how much, beside the usual.
    """

    name: ClassVar[str]
    modes: ClassVar[tuple[str, ...]] = ("none",)
    """The modes in which it may do harm of its own kind."""
    goes_on: ClassVar[bool] = False
    """Whether `run` may be called again after something broke, and then goes on after what broke it."""

    def __init__(self, seed: int, size: float = 1.0) -> None:
        self.seed = seed
        self.size = size
        self.things = 0
        """How many it has thrown."""
        self.doing = "nothing yet"
        self.case: Case | None = None
        """The case that was thrown last, if it can be thrown again."""

    def scaled(self, usual: int, *, least: int = 1) -> int:
        """Return the number for this size where the usual size has `usual`."""
        return max(least, round(usual * self.size))

    @abstractmethod
    async def run(self, stage: Stage) -> None:
        """Run the scene.

        Raises NotRecoveredError if what was taken away is given back and the sidecar does not take it.
        """
