from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.config.settings import (
    Address,
    EgressMode,
    EgressSettings,
    JournalSettings,
    LogFormat,
    LogLevel,
    PeerSettings,
    Policy,
    Settings,
    load_settings,
)
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MINIMAL = """
[broker]
id = 101
[ingress]
listen = "10.0.0.1:9092"
upstream = "127.0.0.1:19092"
"""
WHOLE = (
    MINIMAL
    + """
[egress]
mode = "peers"
[[egress.peers]]
broker = 102
listen = "127.0.102.1:9092"
upstream = "kafka-102:9092"
[[egress.peers]]
broker = 103
listen = "[::1]:9092"
upstream = "[fd00::103]:9092"
[quotas]
file = "conf/quotas.toml"
policy = "kip73"
gate = "50ms"
burst = "1s"
window_num = 5
window_size_seconds = 2
[http]
listen = "0.0.0.0:9404"
allowed_hosts = ["throttle.example.com", "*.kafka.svc"]
[log]
format = "console"
level = "debug"
[limits]
max_memory = "1MiB"
idle_timeout = "3s"
drain = "1m"
"""
)


def load(
    tmp_path: Path, content: str, *, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> Settings:
    path = tmp_path / "proxy.toml"
    path.write_text(content)
    return load_settings(path, overrides, environ or {})


def test_everything_said_is_taken(tmp_path: Path) -> None:
    settings = load(tmp_path, WHOLE)
    assert settings.broker.id == 101
    assert settings.ingress is not None
    assert settings.ingress.listen == Address("10.0.0.1", 9092)
    assert settings.ingress.upstream == Address("127.0.0.1", 19092)
    assert settings.egress is not None
    assert settings.egress.peers == (
        PeerSettings(102, Address("127.0.102.1", 9092), Address("kafka-102", 9092)),
        PeerSettings(103, Address("::1", 9092), Address("fd00::103", 9092)),
    )
    assert settings.quotas.file == tmp_path / "conf" / "quotas.toml"
    assert settings.quotas.policy is Policy.KIP73
    assert (settings.quotas.gate_seconds, settings.quotas.burst_seconds) == (0.05, 1.0)
    assert (settings.quotas.window_num, settings.quotas.window_size_seconds) == (5, 2)
    assert settings.http.listen == Address("0.0.0.0", 9404)
    assert settings.http.allowed_hosts == ("throttle.example.com", "*.kafka.svc")
    assert (settings.log.format, settings.log.level) == (LogFormat.CONSOLE, LogLevel.DEBUG)
    assert settings.limits.max_memory_bytes == 2**20
    assert (settings.limits.idle_timeout_seconds, settings.limits.drain_seconds) == (3.0, 60.0)


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path, MINIMAL)
    assert settings.egress is None
    assert settings.journal is None
    assert settings.quotas.file == tmp_path / "quotas.toml"
    assert settings.quotas.policy is Policy.STRICT
    assert (settings.quotas.gate_seconds, settings.quotas.burst_seconds) == (0.1, 0.25)
    assert (settings.quotas.window_num, settings.quotas.window_size_seconds) == (11, 1)
    assert settings.http.listen == Address("127.0.0.1", 9404)
    assert (settings.log.format, settings.log.level) == (LogFormat.JSON, LogLevel.INFO)
    assert settings.limits.max_memory_bytes == 2**30


def test_a_journal_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    settings = load(tmp_path, MINIMAL, overrides=["journal.directory=j", "journal.rotate_at=1MiB"])
    assert settings.journal == JournalSettings(tmp_path / "j", 600.0, 1 << 20, 1 << 30)


def test_an_absolute_quotas_file_stays(tmp_path: Path) -> None:
    settings = load(tmp_path, MINIMAL, overrides=["quotas.file=/etc/quotas.toml"])
    assert str(settings.quotas.file) == "/etc/quotas.toml"


@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("[foo]", "foo: unknown key; expected one of broker, ingress"),
        ("[quotas]\nfoo = 1", "quotas.foo: unknown key; expected one of file, policy, gate"),
        ("[journal]", "journal.directory: missing"),
        (
            "[journal]\ndirectory = 'j'\nkeep = '20MiB'",
            "journal.keep: expected at least twice rotate_at (16MiB), found",
        ),
        ("[journal]\ndirectory = 'j'\nrotate_every = '0s'", "journal.rotate_every: expected a duration above 0"),
        ("[quotas]\npolicy = 'fair'", 'quotas.policy: expected "strict" or "kip73", found "fair"'),
        ("[quotas]\ngate = '1s'", 'quotas.burst: expected no less than gate (1s), found "250ms"'),
        ("[quotas]\ngate = '0ms'", 'quotas.gate: expected a duration above 0, found "0ms"'),
        ("[quotas]\ngate = 100", 'quotas.gate: expected a duration like "250ms" or "10s", found 100'),
        ("[quotas]\nwindow_num = 0", "quotas.window_num: expected an integer >= 1, found 0"),
        ("[quotas]\nwindow_num = true", "quotas.window_num: expected an integer, found true"),
        ("[http]\nlisten = 'foo'", 'http.listen: expected host:port, found "foo"'),
        (
            "[http]\nallowed_hosts = ['a', 'http://b:1']",
            (
                'http.allowed_hosts[1]: expected a host name without scheme and port, "*.example.com", or "*", '
                'found "http://b:1"'
            ),
        ),
        (
            (
                "[http]\nwriters = ['operator']\n"
                "[http.tls]\nssl = { keystore.location = 'a', truststore.location = 'b', client.auth = 'required' }"
            ),
            'http.writers[0]: expected the distinguished name of a certificate, such as "CN=kafka-operator,O=Example"',
        ),
        (
            "[http]\nwriters = ['CN=operator']",
            "http.tls: missing, or asks for no certificates, and http.writers wants [http.tls] with ssl.client.auth",
        ),
        ("[http]\nallowed_hosts = 'a'", "http.allowed_hosts: expected a list, found"),
        ("[http]\nlisten = '10.0.0.1:9092'", "http.listen: 10.0.0.1:9092 collides with ingress.listen"),
        ("[log]\nlevel = 'loud'", 'log.level: expected "debug" or "info" or "warning" or "error"'),
        ("[limits]\ndrain = '5'", 'limits.drain: expected a duration like "250ms" or "10s", found "5"'),
        ("[limits]\nmax_memory = '8Mb'", "limits.max_memory: expected bytes"),
        (
            "[limits]\nmax_memory = 1.5",
            'limits.max_memory: expected bytes as an integer or text like "8MiB", found 1.5',
        ),
        (
            "[limits]\nframe_timeout = '5s'",
            "limits.frame_timeout: unknown key; expected one of drain,",
        ),
        ("[quotas]\nwindow_num = 5", 'quotas.window_num: is of Kafka\'s own arithmetic: expected policy = "kip73"'),
        ("[quotas]\nfile = ''", 'quotas.file: expected a path, found ""'),
        ("[http]\nreload = 1", "http.reload: expected true or false, found 1"),
        ("[http]\ntls = 0", "http.tls: expected a table, found 0"),
        (
            "[quotas]\nfile = 'a.toml'\nstate = './a.toml'",
            "quotas.state: expected another file than quotas.file, found",
        ),
        ("[quotas]\nfile = 5\nstate = 'a.toml'", "quotas.file: expected a path, found 5"),
        ("[quotas]\nstate = ''", 'quotas.state: expected a path, found ""'),
        ("[egress]", "egress.peers: expected at least one [[egress.peers]], found none"),
        ("[egress]\nmode = 'transparent'", "egress.listen: missing"),
        ("[egress]\nmode = 'transparent'\nlisten = 'a'", 'egress.listen: expected host:port, found "a"'),
        (
            "[egress]\nmode = 'transparent'\nlisten = '10.0.0.1:9092'",
            "egress.listen: 10.0.0.1:9092 collides with ingress.listen, 10.0.0.1:9092",
        ),
        (
            (
                "[egress]\nmode = 'transparent'\nlisten = 'a:1'\n[[egress.peers]]\nbroker = 102\nlisten = 'b:1'\n"
                "upstream = 'c:1'"
            ),
            'egress.peers[0].listen: expected none beside egress.mode = "transparent", found b:1',
        ),
        ("[egress]\npeers = [5]", "egress.peers[0]: expected a table, found 5"),
        (
            "[egress]\nmode = 'transparent'\nlisten = 'a:1'\n[[egress.peers]]\nbroker = 101\nupstream = 'b:1'",
            "egress.peers[0].broker: 101 is broker.id, not a peer",
        ),
        ("[egress]\nlisten = 'a:1'", 'egress.listen: expected none beside egress.mode = "peers", found a:1'),
        ("[igress]", "igress: unknown key; expected one of broker, ingress"),
        ("[egress]\nmode = 'magic'", 'egress.mode: expected "peers" or "transparent", found "magic"'),
        ("[egress]\npeers = 5", "egress.peers: expected a list, found 5"),
        ("egress = 5", "egress: expected a table, found 5"),
        ("[[egress.peers]]\nbroker = 102\nupstream = 'b:2'", "egress.peers[0].listen: missing"),
        (
            "[[egress.peers]]\nbroker = 101\nlisten = 'a:1'\nupstream = 'b:2'",
            "egress.peers[0].broker: 101 is broker.id, not a peer",
        ),
        (
            (
                "[[egress.peers]]\nbroker = 2\nlisten = 'a:1'\nupstream = 'b:2'\n"
                "[[egress.peers]]\nbroker = 2\nlisten = 'a:2'\nupstream = 'b:2'"
            ),
            "egress.peers[1].broker: 2 is listed twice",
        ),
        (
            (
                "[[egress.peers]]\nbroker = 2\nlisten = 'a:1'\nupstream = 'b:2'\n"
                "[[egress.peers]]\nbroker = 3\nlisten = 'a:1'\nupstream = 'b:2'"
            ),
            "egress.peers[1].listen: a:1 collides with egress.peers[0].listen, a:1",
        ),
        (
            "[[egress.peers]]\nbroker = 2\nlisten = 'a:1'\nupstream = 'a:1'",
            "egress.peers[0].upstream: expected the peer, found our own listen, a:1",
        ),
        (
            "[[egress.peers]]\nbroker = 2\nlisten = '127.0.0.1:1'\nupstream = 'localhost:1'",
            "egress.peers[0].upstream: expected the peer, found our own listen, localhost:1",
        ),
        (
            "[[egress.peers]]\nbroker = 2\nlisten = '0.0.0.0:1'\nupstream = '127.0.102.1:1'",
            "egress.peers[0].upstream: expected the peer, found our own listen, 127.0.102.1:1",
        ),
        (
            "[[egress.peers]]\nbroker = 2\nlisten = '[::]:1'\nupstream = '[::1]:1'",
            "egress.peers[0].upstream: expected the peer, found our own listen, [::1]:1",
        ),
        (
            "[[egress.peers]]\nbroker = 2\nlisten = 'a:1'\nupstream = 'a:0'",
            'egress.peers[0].upstream: expected a port to connect to, found "a:0"',
        ),
    ],
)
def test_a_problem_is_named_by_file_and_key(tmp_path: Path, addition: str, problem: str) -> None:
    top_level = addition.startswith("egress =")
    content = f"{addition}\n{MINIMAL}" if top_level else f"{MINIMAL}\n{addition}"
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, content)
    assert f"{tmp_path}/proxy.toml: {problem}" in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "broker.id: missing"),
        ("[broker]\nid = 'a'", 'broker.id: expected an integer, found "a"'),
        ("[broker]\nid = -1", "broker.id: expected an integer >= 0, found -1"),
        ("[broker]\nid = 1", "ingress: missing, and so is egress: expected at least one of the two roles"),
        (
            MINIMAL.replace("19092", "0"),
            'ingress.upstream: expected a port to connect to, found "127.0.0.1:0"',
        ),
        (MINIMAL.replace("127.0.0.1:19092", "10.0.0.1:9092"), "ingress.upstream: expected the broker"),
        ("[broker\n", "not TOML: Expected ']' at the end of a table declaration (at line 1"),
    ],
)
def test_what_must_be_there(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, content)
    assert f"proxy.toml: {problem}" in str(caught.value)


def test_several_problems_are_found_at_once(tmp_path: Path) -> None:
    content = MINIMAL.replace("10.0.0.1:9092", "foo") + "[quotas]\npolicy = 'x'\n[log]\nformat = 'y'"
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, content)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "ingress.listen",
        "quotas.policy",
        "log.format",
    ]


@pytest.mark.parametrize(
    ("addition", "problems"),
    [
        (
            "[[egress.peers]]\nlistn = 1\n[[egress.peers]]\nbroker = '3'\nlisten = 'a'\nupstream = 'b:0'",
            [
                (
                    "egress.peers[0].listn: unknown key; expected one of broker, listen, upstream, server_name "
                    "(did you mean listen?)"
                ),
                "egress.peers[0].broker: missing",
                "egress.peers[0].upstream: missing",
                'egress.peers[1].broker: expected an integer, found "3"',
                'egress.peers[1].listen: expected host:port, found "a"',
                'egress.peers[1].upstream: expected a port to connect to, found "b:0"',
                "egress.peers[0].listen: missing",
            ],
        ),
        (
            "[limits]\ndrain = '1'\nidle_timeout = '0s'\nmax_connections = -1\nmax_memory = 'x'",
            [
                'limits.drain: expected a duration like "250ms" or "10s", found "1"',
                "limits.max_connections: expected an integer >= 0, found -1",
                'limits.max_memory: expected bytes as an integer or text like "8MiB", found "x"',
                'limits.idle_timeout: expected a duration above 0, found "0s"',
            ],
        ),
        (
            "[quotas]\ngate = '5'\nburst = '1ms'\n[log]\nlevel = 1",
            [
                'quotas.gate: expected a duration like "250ms" or "10s", found "5"',
                'log.level: expected "debug" or "info" or "warning" or "error", found 1',
            ],
        ),
    ],
)
def test_all_problems_of_a_table_are_found_and_none_that_follows_from_another(
    tmp_path: Path, addition: str, problems: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, f"{MINIMAL}\n{addition}")
    told = [re.fullmatch(r".*?: (.*) \(line \d+\)", problem) for problem in caught.value.problems]
    assert [found and found[1] for found in told] == problems


def test_a_problem_of_the_file_has_its_line_and_one_of_an_override_has_none(tmp_path: Path) -> None:
    content = f"{MINIMAL}[limits]\nmax_memory = '1GiB'\nframe_timeout = '5s'\n"
    line = len(content.splitlines())
    with pytest.raises(ConfigurationError, match=rf"limits.frame_timeout: unknown key; .* \(line {line}\)$"):
        load(tmp_path, content)
    with pytest.raises(ConfigurationError, match=r"--set: limits.drain: expected a duration .*, found 5$"):
        load(tmp_path, MINIMAL, overrides=["limits.drain=5"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        load_settings(tmp_path / "nowhere.toml")


def test_a_transparent_egress_has_one_listener_and_peers_are_names(tmp_path: Path) -> None:
    transparent = "[egress]\nmode = 'transparent'\nlisten = '[::]:15001'\n"
    settings = load(tmp_path, MINIMAL + transparent)
    assert settings.egress == EgressSettings(EgressMode.TRANSPARENT, (), Address("::", 15001))
    settings = load(tmp_path, MINIMAL + transparent + "[[egress.peers]]\nbroker = 102\nupstream = 'kafka-102:9092'")
    assert settings.egress is not None
    assert settings.egress.peers == (PeerSettings(102, None, Address("kafka-102", 9092)),)


def test_only_one_role_is_fine(tmp_path: Path) -> None:
    content = WHOLE.replace("[ingress]", "").replace('listen = "10.0.0.1:9092"', "", 1)
    settings = load(tmp_path, content.replace('upstream = "127.0.0.1:19092"', "", 1))
    assert settings.ingress is None
    assert settings.egress is not None


def test_the_state_is_where_proxy_toml_says_then_where_a_service_manager_says(tmp_path: Path) -> None:
    environ = {"STATE_DIRECTORY": "/var/lib/sidecar"}
    assert load(tmp_path, MINIMAL, environ=environ).quotas.state == Path("/var/lib/sidecar/quotas.toml.last-good")
    said = load(tmp_path, MINIMAL, overrides=["quotas.state=kept"], environ=environ)
    assert said.quotas.state == tmp_path / "kept"


@pytest.mark.parametrize(
    ("file", "state", "refused"),
    [
        ("{base}/quotas.toml", "quotas.toml", "expected another file than quotas.file"),
        ("quotas.toml", "{base}/quotas.toml", "expected another file than quotas.file"),
        ("quotas.toml", "link/quotas.toml", "expected another file than quotas.file"),
        ("link/quotas.toml", "quotas.toml", "expected another file than quotas.file"),
        ("quotas.toml", "linked.toml", "expected another file than quotas.file"),
        ("not-there.toml", "link/not-there.toml", "expected another file than quotas.file"),
        ("quotas.new", "quotas", "it is written by way of {base}/quotas.new, and that is quotas.file"),
        ("quotas.new", "link/quotas", "it is written by way of {base}/link/quotas.new, and that is quotas.file"),
        ("quotas.toml", "quotas", None),
        ("quotas.toml", "quotas.toml.new", None),
        ("quotas.toml", "elsewhere/quotas.toml", None),
    ],
)
def test_the_state_takes_nobody_elses_place_however_it_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, state: str, refused: str | None
) -> None:
    (tmp_path / "quotas.toml").write_text("# ours\n")
    (tmp_path / "linked.toml").symlink_to("quotas.toml")
    (tmp_path / "link").symlink_to(".")
    monkeypatch.chdir(tmp_path)
    for base in (tmp_path, Path()):
        content = f"{MINIMAL}[quotas]\nfile = '{file}'\nstate = '{state}'\n".replace("{base}", str(tmp_path))
        if refused is None:
            assert load(base, content).quotas.state == base / state
            continue
        told = refused.replace("{base}/", "" if base == Path() else f"{base}/")
        with pytest.raises(ConfigurationError, match=f"proxy.toml: quotas.state: {told}.*, found "):
            load(base, content)


def test_a_disk_that_hangs_is_not_waited_for_by_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start says so later, and falls back on what it has."""
    over = threading.Event()
    monkeypatch.setattr("proxy.files.reading.MAX_SECONDS", 0.5)
    monkeypatch.setattr("proxy.files.reading._touch", lambda path: over.wait(20.0) if path.name == "q" else None)
    try:
        assert load(tmp_path, f"{MINIMAL}[quotas]\nfile = 'q'\nstate = './q'\n").quotas.file == tmp_path / "q"
    finally:
        over.set()
