"""What stands behind the pages: each worked out once for all who wait for it, and never older than the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.observing.exposition import Exposition
from proxy.observing.status_page import StatusPage
from tests.proxy.http.serving import heard
from tests.proxy.http.test_connection import head
from tests.proxy.serving.test_sidecar import Running, running, settings, write_quotas

if TYPE_CHECKING:
    from pathlib import Path

ASKED = 20


async def ask(sidecar: Running, path: str) -> bytes:
    async with await sidecar.dial("http.listen") as stream:
        await stream.send_all(head("GET", path))
        await stream.send_eof()
        return await heard(stream)


@pytest.mark.parametrize(
    ("path", "of", "name"),
    [
        ("/metrics", Exposition, "encode"),
        ("/throttle", StatusPage, "throttle"),
        ("/config", StatusPage, "config"),
    ],
)
async def test_a_page_is_worked_out_once_for_all_who_wait(
    path: str, of: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out, original = list[object](), getattr(of, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        worked_out.append(path)
        return original(*arguments, **options)

    monkeypatch.setattr(of, name, counted)
    write_quotas(tmp_path, "1000")
    answers: list[bytes] = []
    async with running(settings(tmp_path, upstream=1)) as sidecar:

        async def once() -> None:
            answers.append(await ask(sidecar, path))

        async with trio.open_nursery() as nursery:
            for _ in range(ASKED):
                nursery.start_soon(once)
    assert [answer[9:12] for answer in answers] == [b"200"] * ASKED
    assert 0 < len(worked_out) < ASKED / 2


async def test_a_page_knows_what_happened_before_it_was_asked_for(tmp_path: Path) -> None:
    write_quotas(tmp_path, "1000")
    async with running(settings(tmp_path, upstream=1)) as sidecar:
        for number in (1, 2, 3):
            said = await ask(sidecar, "/metrics")
            await ask(sidecar, "/nowhere")
            found = re.search(rb'http_answers_total\{code="404"\} (\d+)', said)
            assert int(found[1] if found else 0) == number - 1
