"""The format of a bearer token, for both its bearer and its server. Pure."""

from __future__ import annotations

import re

TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")
"""What RFC 6750 allows in a header."""
MOST_BYTES = 4096
