"""GET and PUT /quotas: statuses, what is written and what stays, for files and for ConfigMaps; and over real HTTP."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import trio
from click.testing import CliRunner

from lab.authority import Authority
from operating.asking import CERTIFICATE_FILE, ask, send
from operating.cli import cli
from operating.commands.telling import put_quotas
from proxy.config import quota_writing, reload
from proxy.config.quota_writing import QuotaWriting
from proxy.config.reload import QuotaWatch
from proxy.config.settings import load_settings
from proxy.errors import ConfigurationError, UnreachableError
from proxy.http.bearer_token import BearerToken
from proxy.http.routing import Answer, Request, Route, Routes
from proxy.http.writers import Writers
from proxy.observing.quota_page import MOST_BYTES, quota_routes
from proxy.quotas import hash_of
from proxy.quotas.whole_file import MOST_BYTES as MOST_FILE_BYTES

from ...operating.fleet.fake_kubectl import FakeKubectl
from ..recorded_log import RecordedLog
from ..test_server import running

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef-secret"
RATE = "leader.replication.throttled.rate"
BEFORE = f'# ours\n[brokers.default]\n{RATE} = "1MiB/s"\nleader.replication.throttled.replicas = "*"\n'.encode()
AFTER = BEFORE.replace(b"1MiB", b"5MiB")
LATER = BEFORE.replace(b"1MiB", b"9MiB")


@dataclass
class Page:
    path: Path
    watch: QuotaWatch
    log: RecordedLog
    routes: Routes

    async def call(self, method: str, body: bytes = b"", **headers: str) -> Answer:
        found = self.routes.find(method, "/quotas")
        assert isinstance(found, Route)
        said = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        request = Request(method, "/quotas", said, body, peer="10.0.0.9")
        return found.admit(request) or await found.handler(request)

    async def put(self, body: bytes, if_match: str | None, **headers: str) -> tuple[int, dict[str, Any]]:
        matches = {} if if_match is None else {"if_match": if_match}
        answer = await self.call("PUT", body, authorization=f"Bearer {TOKEN}", **matches, **headers)
        return answer.status, json.loads(answer.body)

    @property
    def rate(self) -> float:
        return self.watch.current.leader.bytes_per_second / 2**20


def page_at(path: Path) -> Page:
    token = path.parent / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    log = RecordedLog()
    watch = QuotaWatch.open(path, broker_id=101, log=log)
    writing = QuotaWriting(path, watch, broker_id=101, log=log)
    return Page(path, watch, log, Routes(quota_routes(writing, Writers(BearerToken.open(token, log), frozenset()))))


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "quotas.toml").write_bytes(BEFORE)
    return page_at(tmp_path / "quotas.toml")


class Mount:
    """A ConfigMap as the kubelet mounts it; `show` swaps it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        folder.mkdir()
        self.show(BEFORE)
        (folder / "quotas.toml").symlink_to("..data/quotas.toml")

    def show(self, content: bytes) -> None:
        self._number += 1
        version = self._folder / f"..{self._number}"
        version.mkdir()
        (version / "quotas.toml").write_bytes(content)
        (self._folder / "..new").symlink_to(version.name)
        (self._folder / "..new").rename(self._folder / "..data")


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path / "mounted")


@pytest.fixture
def mounted(mount: Mount, tmp_path: Path) -> Page:
    return page_at(tmp_path / "mounted" / "quotas.toml")


async def test_reading_gives_the_file_and_its_hash(page: Page) -> None:
    answer = await page.call("GET", authorization=f"Bearer {TOKEN}")
    assert (answer.status, answer.body, dict(answer.headers)["etag"]) == (200, BEFORE, f'"{hash_of(BEFORE)}"')


async def test_who_reads_over_and_over_has_each_change_hashed_once_and_none_by_the_loop(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest file takes 2 to 4 ms to hash, in which no connection would be served."""
    hashed = _hashed_by(monkeypatch)
    for content in (BEFORE, AFTER):
        page.path.write_bytes(content)
        for _ in range(5):
            answer = await page.call("GET", authorization=f"Bearer {TOKEN}")
            assert (answer.body, dict(answer.headers)["etag"]) == (content, f'"{hash_of(content)}"')
    assert [content for content, _ in hashed] == [BEFORE, AFTER]
    assert threading.get_ident() not in [thread for _, thread in hashed]


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_who_writes_has_nothing_hashed_by_the_loop(
    page: Page, mounted: Page, *, is_mounted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = _hashed_by(monkeypatch)
    written = mounted if is_mounted else page
    assert (await written.put(LATER, hash_of(AFTER)))[0] == 412
    assert (await written.put(AFTER, hash_of(BEFORE)))[0] == 200
    assert (await written.put(LATER, hash_of(AFTER)))[0] == 200
    assert hashed
    assert threading.get_ident() not in [thread for _, thread in hashed]


def _hashed_by(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, int]]:
    """What is hashed from now on for those who read and write over HTTP, each with the thread that does so."""
    hashed: list[tuple[bytes, int]] = []

    def record(content: bytes) -> str:
        hashed.append((content, threading.get_ident()))
        return hash_of(content)

    monkeypatch.setattr(quota_writing, "hash_of", record)
    return hashed


async def test_a_file_too_long_for_any_quotas_is_not_sent(page: Page) -> None:
    page.path.write_bytes(b"#" * (MOST_FILE_BYTES + 1))
    answer = await page.call("GET", authorization=f"Bearer {TOKEN}")
    assert answer.status == 503
    assert f"{page.path}: expected at most {MOST_FILE_BYTES} bytes" in json.loads(answer.body)["error"]


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong-wrong-wrong-wrong"}])
async def test_without_the_token_nobody_gets_in(page: Page, method: str, headers: dict[str, str]) -> None:
    answer = await page.call(method, AFTER, if_match=f'"{hash_of(BEFORE)}"', **headers)
    assert answer.status == 401
    assert dict(answer.headers)["www-authenticate"].startswith("Bearer")
    assert page.path.read_bytes() == BEFORE


@pytest.mark.parametrize("quote", ['"', ""])
async def test_writing_replaces_the_file_and_is_in_force(page: Page, quote: str) -> None:
    status, said = await page.put(AFTER, f"{quote}{hash_of(BEFORE)}{quote}")
    assert status == 200
    assert page.path.read_bytes() == AFTER
    assert page.rate == 5
    assert (said["hash"], said["hash_before"], said["kept"]) == (hash_of(AFTER), hash_of(BEFORE), "file")
    assert said["changes"]["leader_bytes_per_second"] == [2**20, 5 * 2**20]
    (line,) = [line for line in page.log.lines if line["event"] == "quotas_put"]
    assert (line["peer"], line["hash"], line["hash_before"]) == ("10.0.0.9", hash_of(AFTER), hash_of(BEFORE))
    undo = said["undo"]
    assert (await page.put(undo["body"].encode(), undo["if_match"]))[0] == 200
    assert page.path.read_bytes() == BEFORE


@pytest.mark.parametrize(
    ("if_match", "status"),
    [(None, 428), ("", 428), ('"000000000000"', 412), ("*", 400), (f'W/"{hash_of(BEFORE)}"', 400), ('"a", "b"', 400)],
)
async def test_whoever_does_not_say_what_is_replaced_replaces_nothing(
    page: Page, if_match: str | None, status: int
) -> None:
    found, said = await page.put(AFTER, if_match)
    assert found == status
    assert "error" in said
    assert (page.path.read_bytes(), page.rate) == (BEFORE, 1)


async def test_of_two_at_once_one_is_stale(page: Page) -> None:
    statuses: list[int] = []

    async def put(content: bytes) -> None:
        statuses.append((await page.put(content, hash_of(BEFORE)))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put, AFTER)
        nursery.start_soon(put, LATER)
    assert sorted(statuses) == [200, 412]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "PUT /quotas: expected TOML, found nothing"),
        (b"[brokers", "PUT /quotas: not TOML"),
        (b"[brokers.default]\nrate = 1\n", "PUT /quotas: brokers.default.rate: unknown key"),
        (b"\xff", "PUT /quotas: "),
    ],
)
async def test_what_check_refuses_is_not_written(page: Page, content: bytes, problem: str) -> None:
    status, said = await page.put(content, hash_of(BEFORE))
    assert status == 400
    assert said["problems"][0].startswith(problem)
    assert (page.path.read_bytes(), page.rate) == (BEFORE, 1)


async def test_a_file_that_cannot_be_replaced_is_no_fault_of_the_content(page: Page) -> None:
    page.path.unlink()
    status, said = await page.put(AFTER, hash_of(BEFORE))
    assert status == 409
    assert "quotas.toml" in said["problems"][0]


async def test_a_file_that_cannot_be_read_is_no_defect_of_the_page(page: Page) -> None:
    """It was a 500 that called itself one, with a traceback in the log."""
    page.path.unlink()
    answer = await page.call("GET", authorization=f"Bearer {TOKEN}")
    assert (answer.status, json.loads(answer.body)) == (
        503,
        {"error": f"{page.path}: cannot be read: No such file or directory"},
    )


async def test_what_is_written_and_cannot_be_read_back_is_not_said_to_be_in_force(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: Path) -> NoReturn:
        raise ConfigurationError(f"{path}: cannot be read: Too many open files")

    monkeypatch.setattr(reload, "read_quotas_file", unreadable)
    status, found = await page.put(AFTER, hash_of(BEFORE))
    assert (status, found["ok"]) == (409, False)
    assert found["problems"] == [
        f"the file is replaced, and not in force yet: {page.path}: cannot be read: Too many open files"
    ]
    assert (page.rate, page.path.read_bytes()) == (1, AFTER)


async def test_a_warning_says_what_is_hardly_meant(page: Page) -> None:
    _, said = await page.put(BEFORE.replace(b'"1MiB/s"', b"50"), hash_of(BEFORE))
    assert "Was a unit forgotten?" in said["warnings"][0]


async def test_over_a_config_map_they_hold_from_memory_until_the_mount_shows_them(mounted: Page, mount: Mount) -> None:
    status, said = await mounted.put(AFTER, hash_of(BEFORE))
    assert (status, said["kept"], mounted.rate) == (200, "memory, until the mounted file shows it", 5)
    answer = await mounted.call("GET", authorization=f"Bearer {TOKEN}")
    assert answer.body == AFTER
    await mounted.watch.reload("watch")  # the mount shows what it showed
    assert mounted.rate == 5
    mount.show(AFTER)
    await mounted.watch.reload("watch")
    assert mounted.rate == 5
    mount.show(BEFORE)  # somebody has taken it back, in the cluster
    await mounted.watch.reload("watch")
    assert mounted.rate == 1
    assert "pushed_quotas_mounted" in mounted.log.events


async def test_a_mount_that_lags_behind_by_a_change_does_not_undo_the_next(mounted: Page, mount: Mount) -> None:
    await mounted.put(AFTER, hash_of(BEFORE))
    between = BEFORE.replace(b"# ours", b"# kubectl edit, of which the mount knows nothing yet")
    await mounted.put(LATER, hash_of(AFTER), throttle_supersedes=hash_of(between))
    for shown in (AFTER, between):
        mount.show(shown)
        await mounted.watch.reload("watch")
        assert mounted.rate == 9
    mount.show(LATER)
    await mounted.watch.reload("watch")
    assert mounted.rate == 9
    assert "pushed_quotas_replaced" not in mounted.log.events


async def test_an_edit_in_the_cluster_has_the_last_word_and_is_said(mounted: Page, mount: Mount) -> None:
    await mounted.put(AFTER, hash_of(BEFORE))
    mount.show(LATER)
    await mounted.watch.reload("watch")
    assert mounted.rate == 9
    (line,) = [line for line in mounted.log.lines if line["event"] == "pushed_quotas_replaced"]
    assert (line["level"], line["hash"], line["hash_pushed"]) == ("warning", hash_of(LATER), hash_of(AFTER))


async def test_a_stale_hash_is_stale_over_a_config_map_too(mounted: Page) -> None:
    assert (await mounted.put(AFTER, hash_of(LATER)))[0] == 412
    assert mounted.rate == 1


SIDECAR = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:1"
[http]
listen = "127.0.0.1:0"
"""


async def test_over_real_http_with_a_token_and_without(page: Page, tmp_path: Path) -> None:
    (tmp_path / "proxy.toml").write_text(SIDECAR)
    async with running(load_settings(tmp_path / "proxy.toml")) as sidecar:
        url = f"http://{sidecar.addresses['http.listen']}"
        with pytest.raises(UnreachableError, match="404"):
            await trio.to_thread.run_sync(lambda: send(url, "/quotas", headers={"Authorization": f"Bearer {TOKEN}"}))
    (tmp_path / "proxy.toml").write_text(SIDECAR + 'token_file = "token"\n')
    async with running(load_settings(tmp_path / "proxy.toml")) as sidecar:
        url = f"http://{sidecar.addresses['http.listen']}"
        with pytest.raises(UnreachableError, match="401"):
            await trio.to_thread.run_sync(put_quotas, url, "wrong-wrong-wrong-wrong", AFTER)
        with pytest.raises(UnreachableError, match="413"):
            await trio.to_thread.run_sync(put_quotas, url, TOKEN, b"#" * (MOST_BYTES + 1))
        said = json.loads(await trio.to_thread.run_sync(put_quotas, url, TOKEN, AFTER))
        assert said["hash"] == hash_of(AFTER)
        content, _ = await trio.to_thread.run_sync(lambda: send(url, "/throttle"))
        assert json.loads(content)["roles"]["leader"]["quota_bytes_per_second"] == 5 * 2**20
    assert page.path.read_bytes() == AFTER


async def test_a_client_certificate_of_a_writer_does_instead_of_a_token(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "tls")
    authority.issue("own.pem", ["localhost", "127.0.0.1"])
    operator, scraper = (authority.issue(f"{name}.pem", [name]) for name in ("operator", "prometheus"))
    (tmp_path / "proxy.toml").write_text(f"""{SIDECAR}writers = ["CN=operator"]
[http.tls]
ssl.keystore.location = "tls/own.pem"
ssl.truststore.location = "tls/ca.pem"
ssl.client.auth = "required"
""")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    async with running(load_settings(tmp_path / "proxy.toml")) as sidecar:
        url = f"https://{sidecar.addresses['http.listen']}"
        with pytest.raises(UnreachableError, match="no answer"):
            await trio.to_thread.run_sync(put_quotas, url, "", AFTER)
        monkeypatch.setenv(CERTIFICATE_FILE, str(scraper))
        assert await trio.to_thread.run_sync(ask, url, "/healthz") == b"ok"
        with pytest.raises(UnreachableError, match=r"403: .*http\.writers, found one of CN=prometheus"):
            await trio.to_thread.run_sync(put_quotas, url, "", AFTER)
        assert page.path.read_bytes() == BEFORE
        monkeypatch.setenv(CERTIFICATE_FILE, str(operator))
        said = json.loads(await trio.to_thread.run_sync(put_quotas, url, "", AFTER))
        assert said["hash"] == hash_of(AFTER)
    assert page.path.read_bytes() == AFTER
    (told,) = [line for line in sidecar.log.lines if line["event"] == "quotas_put"]
    assert told["peer"] == "127.0.0.1 (CN=operator)"


async def test_a_fleet_patches_the_config_map_and_the_sidecar_has_it_before_its_mount(
    mounted: Page, mount: Mount, tmp_path: Path
) -> None:
    kubectl = FakeKubectl(tmp_path / "cluster")
    (kubectl.folder / "kafka-quotas").write_text(json.dumps({"data": {"quotas.toml": BEFORE.decode()}}))
    text = f'{SIDECAR}token_file = "mounted/token"\n[quotas]\nfile = "mounted/quotas.toml"\n'
    (tmp_path / "proxy.toml").write_text(text)
    async with running(load_settings(tmp_path / "proxy.toml")) as sidecar:
        fleet = tmp_path / "fleet.toml"
        fleet.write_text(
            f'[kubernetes]\nkubectl = "{kubectl.path}"\n[[sidecars]]\nbroker = 101\n'
            f'url = "http://{sidecar.addresses["http.listen"]}"\n'
            'configmap = "kafka/quotas"\ntoken_file = "mounted/token"\n'
        )
        arguments = ["set", RATE, "5MiB/s", "--fleet", str(fleet)]
        result = await trio.to_thread.run_sync(lambda: CliRunner().invoke(cli, arguments))
        assert result.exit_code == 0, result.output
        assert "in force: broker 101" in result.output
        assert mounted.path.read_bytes() == BEFORE
        mount.show(AFTER)
        with trio.fail_after(10):
            while "pushed_quotas_mounted" not in sidecar.log.events:  # noqa: ASYNC110 - the kernel tells the sidecar
                await trio.sleep(0.05)
    assert json.loads((kubectl.folder / "kafka-quotas").read_text())["data"]["quotas.toml"] == AFTER.decode()
