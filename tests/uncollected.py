"""What a test does while nobody looks for garbage, as in the sidecar: a circle is found by its staying."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uncollected(*, leaves_nothing: bool = False) -> Iterator[None]:
    """Python does not collect garbage until the block is over. `leaves_nothing`: by then there must be none."""
    gc.collect()
    if leaves_nothing:
        gc.freeze()  # what an earlier test's threads leave behind as they end is none of the block's
    gc.disable()
    try:
        yield
        if leaves_nothing:
            assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()
