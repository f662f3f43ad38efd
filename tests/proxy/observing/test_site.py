"""What stands behind the pages: each worked out once for all who wait for it, and never older than the request."""

from __future__ import annotations

import errno
import json
import re
import resource
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import trio
from prometheus_client.core import GaugeMetricFamily

from proxy.http.routing import json_answer
from proxy.observing import site
from proxy.observing.exposition import Exposition
from proxy.observing.site import PROCESS_FRESH_SECONDS, Endpoints, ProcessFigures, pages
from proxy.observing.status_page import StatusPage
from proxy.threads import NoThreadError
from tests.proxy.http.serving import heard
from tests.proxy.http.test_connection import head
from tests.proxy.serving.test_sidecar import Running, running, settings, write_quotas

from ..http.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import Metric as Family
    from trio.testing import MockClock

    from proxy.http.routing import Routes


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


async def metrics() -> bytes:
    await trio.lowlevel.checkpoint()
    return b"up 1\n"


async def config() -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"broker": 101, "rate": float("inf")}


async def throttle() -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"roles": {}}


async def reload_well() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return True, {"outcome": "changed"}


async def reload_badly() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return False, {"error": "quotas.toml: x"}


ENDPOINTS = Endpoints(
    metrics=metrics,
    ready=lambda: (True, {"reasons": []}),
    config=config,
    throttle=throttle,
    reload=reload_well,
)
SICK = ENDPOINTS._replace(ready=lambda: (False, {"reasons": ["draining"]}), reload=reload_badly)


async def asked(
    table: Routes, method: str, path: str, *headers: str, host: str = "localhost"
) -> tuple[int, str, bytes]:
    """Status, head and body."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *headers, "", ""]
    async with serving(routes=table) as served:
        head, _, body = (await served.say("\r\n".join(lines).encode())).partition(b"\r\n\r\n")
    return int(head[9:12]), head.decode(), body


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"up 1\n"),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/healthz", 200, b"ok\n"),
        ("GET", "/readyz", 200, b'{"ready":true,"reasons":[]}\n'),
        ("GET", "/config", 200, b'{"broker":101,"rate":null}\n'),
        ("GET", "/throttle", 200, b'{"roles":{}}\n'),
        ("POST", "/-/reload", 200, b'{"outcome":"changed"}\n'),
        ("POST", "/metrics", 405, b'{"error":"POST is not allowed here; use GET"}\n'),
        ("GET", "/-/reload", 405, b'{"error":"GET is not allowed here; use POST"}\n'),
    ],
)
async def test_each_path_has_its_answer(method: str, path: str, status: int, body: bytes) -> None:
    assert (await asked(pages(ENDPOINTS), method, path))[::2] == (status, body)


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/healthz", 200, b"ok\n"),
        ("GET", "/readyz", 503, b'{"ready":false,"reasons":["draining"]}\n'),
        ("POST", "/-/reload", 400, b'{"error":"quotas.toml: x"}\n'),
    ],
)
async def test_what_is_wrong_is_said(method: str, path: str, status: int, body: bytes) -> None:
    assert (await asked(pages(SICK), method, path))[::2] == (status, body)


async def test_an_unknown_path_names_those_there_are() -> None:
    status, _, body = await asked(pages(ENDPOINTS), "GET", "/nope")
    assert status == 404
    assert json.loads(body)["paths"] == ["/metrics", "/healthz", "/readyz", "/config", "/throttle", "/-/reload"]


async def test_metrics_are_in_prometheus_text_format_whatever_the_header_accepts() -> None:
    _, head, _ = await asked(pages(ENDPOINTS), "GET", "/metrics", "accept: application/openmetrics-text")
    assert "content-type: text/plain; version=0.0.4; charset=utf-8" in head


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, b"ok\n"),
        ("/readyz", 200, b'{"ready":true}\n'),  # and no reasons, which name files
        ("/metrics", 421, None),
        ("/config", 421, None),
        ("/throttle", 421, None),
    ],
)
async def test_by_a_foreign_name_probes_alone_are_answered(path: str, status: int, body: bytes | None) -> None:
    found, _, said = await asked(pages(ENDPOINTS), "GET", path, host="evil.example")
    assert found == status
    assert body is None or said == body


async def test_a_token_may_be_wanted_of_everybody_but_probes() -> None:
    table = pages(ENDPOINTS, admit=lambda _: json_answer(401, {"error": "no token"}))
    for method, path in (("GET", "/metrics"), ("GET", "/config"), ("GET", "/throttle"), ("POST", "/-/reload")):
        assert (await asked(table, method, path))[0] == 401
    for path in ("/healthz", "/readyz"):
        assert (await asked(table, "GET", path))[0] == 200


async def test_reloads_may_be_switched_off() -> None:
    status, _, body = await asked(pages(ENDPOINTS, reload=False), "POST", "/-/reload")
    assert status == 404
    assert b"/-/reload" not in body.partition(b"paths")[2]


async def test_what_the_kernel_says_of_this_process() -> None:
    families = {family.name: family for family in await ProcessFigures().read()}
    assert families.keys() == {
        "process_cpu_seconds",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
    }
    assert families["process_open_fds"].samples[0].value > 0


async def test_it_is_read_once_a_second_for_all() -> None:
    read = 0

    def collect() -> tuple[Family, ...]:
        nonlocal read
        read += 1
        return (GaugeMetricFamily("reads", "x", value=read),)

    figures = ProcessFigures(collect)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(figures.read)
    assert read == 1


async def test_what_hangs_is_not_waited_for(autojump_clock: MockClock) -> None:
    goes_on = threading.Event()

    def collect() -> tuple[Family, ...]:
        goes_on.wait()
        return ()

    figures = ProcessFigures(collect)
    began = trio.current_time()
    assert await figures.read() == ()
    assert trio.current_time() - began == PROCESS_FRESH_SECONDS
    goes_on.set()


async def test_without_a_descriptor_or_a_thread_the_figures_are_those_of_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scrape failed, and with it the only metrics that tell what is wanting."""
    figures = ProcessFigures()
    while not (before := await figures.read()):
        pass  # the first one loads prometheus_client, which takes a busy machine longer than it is waited for
    monkeypatch.setattr(site, "PROCESS_FRESH_SECONDS", 0.2)
    await trio.sleep(0.3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        without_descriptor = await figures.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    async def no_thread(*_: object, **__: object) -> None:
        raise NoThreadError("can't start new thread")

    await trio.sleep(0.3)
    monkeypatch.setattr(site, "in_thread", no_thread)
    assert [list(without_descriptor), list(await figures.read())] == [list(before)] * 2
    assert before


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), ImportError("no such module")])
async def test_what_cannot_be_loaded_now_keeps_nothing_else_from_it_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A crowd that dialled a sidecar in its first tenth of a second ended it: importing prometheus_client raised."""
    loaded = []

    def fail() -> NoReturn:
        raise error

    for name in ("own_version", "load_prometheus"):
        monkeypatch.setattr(site, name, fail)
    monkeypatch.setattr(site, "load_notifier", lambda: loaded.append("notifier"))
    await site.load_lazily()
    assert loaded == ["notifier"]


async def test_where_no_thread_can_be_started_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a cgroup's pids.max is used up."""

    asked = []

    async def start(load: object, **_: object) -> NoReturn:
        asked.append(load)
        raise NoThreadError("can't start new thread")

    monkeypatch.setattr(site, "in_thread", start)
    await site.load_lazily()
    assert asked == [site.load_late]
