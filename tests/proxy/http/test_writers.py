"""Who is a writer: by a verified certificate's name, by the token, by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.http.authorization import BearerToken, Writers
from proxy.http.routing import Request

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef-secret"
OPERATOR = "CN=operator,O=Example"


@pytest.mark.parametrize(
    ("subjects", "has_token", "subject", "brought", "status"),
    [
        ({OPERATOR}, False, OPERATOR, "", None),
        ({OPERATOR}, True, OPERATOR, "", None),
        ({OPERATOR}, True, "", TOKEN, None),
        ({OPERATOR}, True, "CN=prometheus", TOKEN, None),
        ({OPERATOR}, True, "CN=prometheus", "", 401),
        ({OPERATOR}, False, "CN=prometheus", TOKEN, 403),
        ({OPERATOR}, False, "CN=operator", "", 403),
        ({OPERATOR}, False, "", "", 403),
        (set(), False, "", "", 403),
        ({""}, False, "", "", 403),
    ],
)
def test_who_is_let_in(
    tmp_path: Path, subjects: set[str], has_token: bool, subject: str, brought: str, status: int | None
) -> None:
    token = BearerToken(tmp_path, TOKEN.encode(), RecordedLog()) if has_token else None
    headers = (("authorization", f"Bearer {brought}"),) if brought else ()
    refusal = Writers(token, frozenset(subjects)).required(Request("PUT", "/quotas", headers, subject=subject))
    assert (None if refusal is None else refusal.status) == status
