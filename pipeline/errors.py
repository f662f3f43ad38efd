"""The errors that the operator can put right: a path, a file, a value.

Invariant: the text is ready to print, says where, what was expected and what was found, and needs no traceback.
"""

from __future__ import annotations


class InputError(Exception):
    """Ends a job with exit status 1."""
