"""Attacks that are no stream of bytes: files, signals, crowds, what never ends. Each is a class of its own.

Scene: what has a `name`, counts `things`, says what it is `doing`, and runs on a stage until it is through. It raises
`NotRecoveredError` if what was taken away is given back and the sidecar does not take it.
"""

from __future__ import annotations

from .crowds import Crowd, Deaf, Loris
from .file_system import FileSystem
from .greedy import Greedy
from .logs import DeadLog, FullLog
from .memory import MadeUpTopics
from .names import TopicIds
from .quota_files import QuotaFiles
from .scene import Scene
from .signals import Signals
from .slow_headers import SlowHeaders
from .tenants import Tenants

SCENES: dict[str, type[Scene]] = {
    scene.name: scene
    for scene in (
        Signals,
        FullLog,
        DeadLog,
        SlowHeaders,
        Loris,
        TopicIds,
        Greedy,
        FileSystem,
        Deaf,
        MadeUpTopics,
        Crowd,
        Tenants,
    )
}  # fmt: skip
"""The scenes by name, in the order they are played."""

__all__ = ["SCENES", "QuotaFiles", "Scene"]
