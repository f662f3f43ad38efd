"""/quotas: the quotas file over HTTP, to read and to replace, for its writers.

    GET /quotas                                   the file, and its hash as ETag
    PUT /quotas   If-Match: "the hash"            the new file in its place, if nobody was faster

Knows headers and statuses; what is written where is `quota_writing`. Invariant: nothing is written without the hash of
what it replaces, nor what ``check`` would refuse.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..config.quota_writing import RefusedWriteError, StaleError
from ..errors import ConfigurationError
from ..http.routing import Answer, Route, json_answer

if TYPE_CHECKING:
    from ..config.quota_writing import QuotaWriting, Written
    from ..http.routing import Request
    from ..http.writers import Writers

PATH = "/quotas"
TOML = "application/toml"
MOST_BYTES = 1024 * 1024
"""The longest quotas file that is taken over HTTP: some 10 000 sections."""
MOST_SUPERSEDED = 16
_ETAG = re.compile(r'"?([0-9a-f]{8,64})"?')


def quota_routes(writing: QuotaWriting, writers: Writers) -> list[Route]:
    admit = writers.required

    async def get(_: Request) -> Answer:
        try:
            content, found = await writing.read()
        except ConfigurationError as error:
            return json_answer(503, {"error": str(error)})
        return Answer(200, content, TOML, headers=(("etag", f'"{found}"'),))

    async def put(request: Request) -> Answer:
        refusal, expected = _expected(request.header("if-match"))
        if refusal is not None:
            return refusal
        superseded = _hashes(request.header("throttle-supersedes"))
        try:
            written = await writing.write(request.body, expected, superseded=superseded, peer=_who(request))
        except StaleError as error:
            return json_answer(412, {"error": str(error), "hash": error.found}, headers=_etag(error.found))
        except RefusedWriteError as error:
            return json_answer(409 if error.is_the_place else 400, {"ok": False, "problems": error.problems})
        return json_answer(200, _said(written), headers=_etag(written.hash))

    return [
        Route("GET", PATH, get, admit=admit),
        Route("PUT", PATH, put, max_body_bytes=MOST_BYTES, admit=admit),
    ]


def _who(request: Request) -> str:
    """Say for the log and the journal who asked: the address, and the name in the certificate that it showed."""
    return f"{request.peer} ({request.subject})" if request.subject else request.peer


def _expected(header: str) -> tuple[Answer | None, str]:
    if not header.strip():
        error = "expected If-Match: with the hash of the quotas that this replaces (the ETag of GET /quotas, or status)"
        return json_answer(428, {"error": error}), ""
    match = _ETAG.fullmatch(header.strip())
    if match is None:
        return json_answer(400, {"error": 'expected If-Match: with one hash, like "4f2a90c1d3e8"'}), ""
    return None, match[1]


def _hashes(header: str) -> tuple[str, ...]:
    found = (_ETAG.fullmatch(each.strip()) for each in header.split(",")[:MOST_SUPERSEDED])
    return tuple(match[1] for match in found if match is not None)


def _etag(found: str) -> tuple[tuple[str, str], ...]:
    return (("etag", f'"{found}"'),)


def _said(written: Written) -> dict[str, object]:
    return {
        "ok": True,
        "hash": written.hash,
        "hash_before": written.hash_before,
        "kept": "file" if written.in_file else "memory, until the mounted file shows it",
        "changes": dict(written.changes),
        "warnings": written.warnings,
        "undo": {
            "method": "PUT",
            "path": PATH,
            "if_match": f'"{written.hash}"',
            "body": written.before.decode("utf-8", "replace"),
        },
    }
