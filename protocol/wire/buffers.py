"""The types that this package accepts as a buffer.

Must not know who owns the memory. Invariant: positions are absolute, indexing gives an int, slicing gives
something ``str(…, "utf-8")`` can read.
"""

from __future__ import annotations

import mmap
from typing import TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
