from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lab.brokers.authority import Authority
from proxy.config.settings import load_settings
from proxy.files import reading
from proxy.quota_files.override_store import load, store_path, write
from proxy.quotas.override import Override, PlacedValue, added

from ...proxy.hanging_disk import hanging_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]


def test_two_good_files_are_explained(config: Path, sidecar: Sidecar) -> None:
    result = sidecar("check", "--config", config)
    assert result.exit_code == 0
    quotas = config.parent / "quotas.toml"
    assert result.output == (
        f"{config}: ok\n"
        f"{quotas}: ok (hash {hashlib.sha256(quotas.read_bytes()).hexdigest()[:12]})\n"
        "\n"
        "broker 101, policy strict, enforcing  (default)\n"
        "\n"
        "leader: 19.07 MiB/s (20000000 B/s)  (brokers.default)\n"
        "  gate 1.91 MiB (2000000 B), burst 4.77 MiB (5000000 B)\n"
        "  orders  partition 0  (topics.orders)\n"
        "\n"
        "follower: not served (no [egress])\n"
    )


def test_json_has_the_same_in_bytes(config: Path, sidecar: Sidecar) -> None:
    report = json.loads(sidecar("check", "--config", config, "--json").output)
    assert report["ok"] is True
    assert (report["broker"], report["policy"], report["enforce"]) == (101, "strict", True)
    assert report["roles"]["leader"] == {
        "served": True,
        "quota_bytes_per_second": 20_000_000,
        "replicas": {"orders": "0"},
        "gate_bytes": 2_000_000,
        "burst_bytes": 5_000_000,
        "layers": {
            "rate": {"layer": "brokers.default", "until": None, "hides": None},
            "replicas": {"orders": {"layer": "topics.orders", "until": None, "hides": None}},
            "finer": {},
        },
    }
    assert report["roles"]["follower"] == {
        "served": False,
        "quota_bytes_per_second": None,
        "replicas": {},
        "layers": {"rate": {"layer": "default", "until": None, "hides": None}, "replicas": {}, "finer": {}},
    }
    assert report["warnings"] == []


def test_an_override_is_shown_with_its_end_and_what_it_hides(config: Path, sidecar: Sidecar) -> None:
    """As the sidecar keeps it: `check` needs no running sidecar for that."""
    since, until = datetime(2026, 11, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    changes = (
        PlacedValue("broker", "leader.replication.throttled.rate", "5MiB/s"),
        PlacedValue("topics.orders", "leader.replication.throttled.replicas", "1:101"),
        PlacedValue("mode", "enforce", value=False),
    )
    override = Override(id="7f3a12", by="ops", since=since, until=until, changes=changes)
    write(store_path(config.parent / ".quotas.toml.last-good", 101), [override])
    output = sidecar("check", "--config", config).output
    ends = r"\(override 7f3a12, until 2100-01-01 00:00:00 UTC, in \w+; hides "
    for shown in (
        rf"broker 101, policy strict, observing only  {ends}true, default\)",
        rf"leader: 5\.00 MiB/s \(5242880 B/s\)  {ends}19\.07 MiB/s \(20000000 B/s\), brokers\.default\)",
        rf"  orders  partition 1  {ends}0, topics\.orders\)",
    ):
        assert re.search(rf"^{shown}$", output, re.MULTILINE), output
    assert "2100-01-01 00:00:00 UTC (in " in output.partition("next changes")[2]
    layer = json.loads(sidecar("check", "--config", config, "--json").output)["roles"]["leader"]["layers"]["rate"]
    assert layer["hides"] == {"value": "19.07 MiB/s (20000000 B/s)", "layer": "brokers.default"}


def test_overrides_that_the_sidecar_has_stored_here_count_and_a_torn_store_is_told(
    config: Path, sidecar: Sidecar
) -> None:
    """Check showed the rate of quotas.toml, and a sidecar beside these files would hold another one."""
    store = store_path(load_settings(config).quotas.state, 101)
    store.parent.mkdir(exist_ok=True)
    made = datetime.now(UTC)
    value = PlacedValue("broker", "leader.replication.throttled.rate", "3MB/s")
    new = Override(id="aaaa", by="ana", since=made, until=made + timedelta(hours=1), changes=(value,))
    write(store, added(load(store, 101).overrides, new, made))
    second = Override(id="bbbb", by="bob", since=made, changes=(PlacedValue("mode", "enforce", False),))
    write(store, added(load(store, 101).overrides, second, made))
    lines = sidecar("check", "--config", config).output.splitlines()
    assert "broker 101, policy strict, observing only  (override bbbb; hides true, default)" in lines
    assert f"override aaaa of ana, until {new.until:%Y-%m-%d %H:%M:%S} UTC: {value.key} = 3MB/s" in lines
    assert "override bbbb of bob, no end: mode.enforce = false" in lines
    assert any(line.startswith("leader: 2.86 MiB/s (3000000 B/s)  (override aaaa, until ") for line in lines)
    after = sidecar("check", "--config", config, "--at", (made + timedelta(hours=2)).isoformat()).output
    assert "leader: 19.07 MiB/s" in after
    assert "aaaa" not in after
    store.write_bytes(store.read_bytes()[:50])
    torn = sidecar("check", "--config", config).output
    assert f"overrides: {store}: expected overrides as a sidecar stores them" in torn


def test_a_small_quota_shows_the_least_gate(config: Path, sidecar: Sidecar) -> None:
    """100 ms of 1000 B/s are 100 B; the gate is at least 32 KiB, and the burst four of them."""
    quotas = config.parent / "small.toml"
    quotas.write_text("[brokers.101]\nleader.replication.throttled.rate = 1000")
    report = json.loads(sidecar("check", "--config", config, "--quotas", quotas, "--json").output)
    assert report["roles"]["leader"]["gate_bytes"] == 32 * 1024
    assert report["roles"]["leader"]["burst_bytes"] == 128 * 1024
    assert report["quotas_file"] == str(quotas)
    assert "throttles nothing" in report["warnings"][0]


def test_the_gate_of_a_rate_that_sets_itself_is_the_most_that_it_may_be(config: Path, sidecar: Sidecar) -> None:
    """What does not hurt goes in small portions, of 20 ms at most; a deadline alone has the gate of any rate."""
    rate = '{{ {}, max = "800MiB/s" }}'
    for table, gate in (('auto = true, min = "10MiB/s"', 16), ("finish_by = 2100-01-01T00:00:00Z", 80)):
        (config.parent / "quotas.toml").write_text(
            f"[brokers.101]\nleader.replication.throttled.rate = {rate.format(table)}\n"
        )
        told = f"  gate at most {gate}.00 MiB ({gate * 2**20} B), burst at most 200.00 MiB ({200 * 2**20} B)\n"
        assert told in sidecar("check", "--config", config).output
        report = json.loads(sidecar("check", "--config", config, "--json").output)
        assert report["roles"]["leader"]["gate_bytes"] == gate * 2**20
    small = sidecar("check", "--config", config, "--set", "quotas.gate=10ms")
    assert "  gate at most 8.00 MiB (" in small.output


def test_kip73_has_no_gate(config: Path, sidecar: Sidecar) -> None:
    result = sidecar("check", "--config", config, "--set", "quotas.policy=kip73")
    assert result.exit_code == 0
    assert "policy kip73" in result.output
    assert "  gate " not in result.output


def test_rates_inside_the_roles_are_shown(config: Path, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").write_text(
        '[brokers.101]\nleader.replication.throttled.rate = "20MiB/s"\nleader.replication.throttled.replicas = "*"\n'
        '[peers.102]\nleader.replication.throttled.rate = "4MiB/s"\n'
        '[topics."clicks-*"]\nleader.replication.throttled.rate = "2MiB/s"\nuntil = 2100-01-01T00:00:00Z\n'
    )
    result = sidecar("check", "--config", config)
    assert (
        "leader: 20.00 MiB/s (20971520 B/s)  (brokers.101)\n"
        "  gate 2.00 MiB (2097152 B), burst 5.00 MiB (5242880 B)\n"
        "  peer 102        4.00 MiB/s (4194304 B/s)  (peers.102)\n"
        '  topic clicks-*  2.00 MiB/s (2097152 B/s)  (topics."clicks-*", until 2100-01-01 00:00:00 UTC, in '
    ) in result.output
    assert "\n  *               every partition  (brokers.101)\n" in result.output
    assert "): leader topic clicks-* 2.00 MiB/s (2097152 B/s) -> unlimited\n" in result.output
    report = json.loads(sidecar("check", "--config", config, "--json").output)
    assert report["roles"]["leader"]["finer"] == [
        {"kind": "peer", "name": "102", "quota_bytes_per_second": 4 * 2**20},
        {"kind": "topic", "name": "clicks-*", "quota_bytes_per_second": 2 * 2**20},
    ]
    assert report["warnings"] == []


def test_quotas_of_clients_are_shown_with_their_layers(config: Path, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").write_text(
        "[clients.default]\nproducer_byte_rate = 1048576\n"
        '[clients."etl-*"]\nproducer_byte_rate = "2MiB/s"\nuntil = 2100-01-01T00:00:00Z\n'
        '[clients.free]\nconsumer_byte_rate = "unlimited"\n'
        '[users."a.b"]\nconsumer_byte_rate = 2048\ncatch_up_only = true\n'
    )
    result = sidecar("check", "--config", config)
    assert (
        "\nclients:\n"
        '  etl-*  producer_byte_rate                 2.00 MiB/s (2097152 B/s)  (clients."etl-*", until 2100-01-01 '
    ) in result.output
    assert (
        "\n  each other client id  producer_byte_rate  1.00 MiB/s (1048576 B/s)  (clients.default)\n" in result.output
    )
    assert "\n  free  consumer_byte_rate                  unlimited  (clients.free)\n" in result.output
    assert ": client etl-* producer_byte_rate 2.00 MiB/s (2097152 B/s) -> 1.00 MiB/s (1048576 B/s)\n" in result.output
    assert re.search(r"\n  users.a.b  consumer_byte_rate +2.00 KiB/s \(2048 B/s\), catch-up only  \(", result.output)
    report = json.loads(sidecar("check", "--config", config, "--json").output)
    assert [each["catch_up_only"] for each in report["clients"]] == [False, False, True, False]
    assert [(each["client"], each["key"], each["quota_bytes_per_second"]) for each in report["clients"]] == [
        ("etl-*", "producer_byte_rate", 2 * 2**20),
        ("default", "producer_byte_rate", 2**20),
        ("users.a.b", "consumer_byte_rate", 2048),
        ("free", "consumer_byte_rate", None),
    ]
    assert report["clients"][2]["layer"]["layer"] == 'users."a.b"'


def test_the_rate_of_the_listener_is_shown_with_its_layer_and_against_the_leaders(
    config: Path, sidecar: Sidecar
) -> None:
    (config.parent / "quotas.toml").write_text(
        '[listener]\nrate = "1MiB/s"\nuntil = 2100-01-01T00:00:00Z\n[brokers.default]\n'
        'leader.replication.throttled.rate = "2MiB/s"\nleader.replication.throttled.replicas = "*"\n'
    )
    result = sidecar("check", "--config", config)
    assert result.exit_code == 0
    assert (
        "\nlistener, clients and followers together: 1.00 MiB/s (1048576 B/s)  (listener, until 2100-01-01 00:00:00 UTC"
    ) in result.output
    assert "warning: listener.rate: 1.00 MiB/s (1048576 B/s): less than the leader's quota of 2.00 " in result.output
    assert ": listener 1.00 MiB/s (1048576 B/s) -> unlimited\n" in result.output
    report = json.loads(sidecar("check", "--config", config, "--json").output)
    assert (report["listener"]["bytes_per_second"], report["listener"]["layer"]["layer"]) == (2**20, "listener")


def test_who_goes_first_is_shown_if_it_was_said(config: Path, sidecar: Sidecar) -> None:
    quotas = config.parent / "quotas.toml"
    quotas.write_text('[priorities]\norder = ["topic:payments", "under-min-isr"]\nmin.insync.replicas = 3\n')
    assert "first of what is behind: topic:payments, under-min-isr\n" in sidecar("check", "--config", config).output
    assert json.loads(sidecar("check", "--config", config, "--json").output)["priorities"] == {
        "order": ["topic:payments", "under-min-isr"],
        "min_insync_replicas": 3,
        "default_replication_factor": None,
    }
    quotas.write_text('[priorities]\norder = ["urgent"]\n')
    result = sidecar("check", "--config", config)
    assert result.exit_code == 1
    assert f"{quotas}: priorities.order: expected a list of under-min-isr, " in result.output


def test_warnings_do_not_fail_the_check(config: Path, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").write_text(
        '[mode]\nenforce = false\n[topics."*"]\nleader.replication.throttled.replicas = "*"\n'
        "until = 2100-01-01T00:00:00Z\n"
    )
    result = sidecar("check", "--config", config)
    assert result.exit_code == 0
    assert "observing only" in result.output
    assert (
        'leader: unlimited  (default)\n  *  every partition  (topics."*", until 2100-01-01 00:00:00 UTC, in '
        in result.output
    )
    assert "  2100-01-01 00:00:00 UTC (in " in result.output
    assert '): leader replicas *="*" -> none\n' in result.output
    assert "warning: mode.enforce is false" in result.output
    assert "warning: leader: replicas are listed, but no rate is set" in result.output


ENDING = """
[brokers.default]
leader.replication.throttled.rate = "20MB/s"
[brokers.101]
leader.replication.throttled.rate = "unlimited"
until = 2026-11-21T05:00:00Z
[topics.orders]
leader.replication.throttled.replicas = "0:101"
until = 2026-11-22T00:00:00Z
[mode]
enforce = false
until = 2026-11-21T05:00:00Z
"""


@pytest.mark.parametrize(
    ("at", "leader", "mode", "first", "changes"),
    [
        (
            "2026-11-21T12:00:00Z",
            "leader: 19.07 MiB/s (20000000 B/s)",
            "enforcing",
            '2026-11-22 00:00:00 UTC (in 12h00m): leader replicas orders="0" -> none',
            1,
        ),
        (
            "2026-11-21T01:00:00+01:00",
            "leader: unlimited",
            "observing only",
            (
                "2026-11-21 05:00:00 UTC (in 5h00m): leader unlimited -> 19.07 MiB/s (20000000 B/s), "
                "observing only -> enforcing"
            ),
            2,
        ),
    ],
)
def test_what_would_hold_at_another_time(
    config: Path, sidecar: Sidecar, at: str, leader: str, mode: str, first: str, changes: int
) -> None:
    (config.parent / "quotas.toml").write_text(ENDING)
    lines = sidecar("check", "--config", config, "--at", at).output.splitlines()
    shown = [line.partition("  (")[0] for line in lines]
    assert f"broker 101, policy strict, {mode}" in shown
    assert leader in shown
    heading = next(n for n, line in enumerate(lines) if line.startswith("next changes, from 2026-11-2"))
    assert lines[heading + 1].strip() == first
    assert len([line for line in lines if " UTC (in " in line]) == changes
    report = json.loads(sidecar("check", "--config", config, "--at", at, "--json").output)
    assert len(report["changes"]) == changes


@pytest.mark.parametrize("at", ["tomorrow", "2026-12-01", "2026-12-01T06:00:00", "9999-12-31T23:59:59Z"])
def test_a_time_needs_an_offset(config: Path, sidecar: Sidecar, at: str) -> None:
    result = sidecar("check", "--config", config, "--at", at)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: --at: expected a date and time with an offset, like 2026-12-01T06:00:00Z")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_problems_of_both_files_are_listed(config: Path, sidecar: Sidecar, *, as_json: bool) -> None:
    config.write_text("[broker]\nid = 'x'")
    quotas = config.parent / "quotas.toml"
    quotas.write_text("[brokers.101]\nleader.replication.throttled.rate = -1")
    result = sidecar("check", "--config", config, "--quotas", quotas, *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    if as_json:
        problems = json.loads(result.stdout)["problems"]
    else:
        assert result.stdout == ""
        problems = result.stderr.removeprefix("Error: ").splitlines()
    assert [problem.split(": ")[:2] for problem in problems] == [
        [str(config), "broker.id"],
        [str(config), "ingress"],
        [str(quotas), "brokers.101.leader.replication.throttled.rate"],
    ]


def test_a_missing_quotas_file_fails_the_check(config: Path, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").unlink()
    result = sidecar("check", "--config", config)
    assert result.exit_code == 1
    assert "quotas.toml: cannot be read: No such file or directory" in result.stderr


def test_a_file_whose_name_is_no_text_is_told_as_json(config: Path, sidecar: Sidecar) -> None:
    odd = config.with_name("proxy-\udcff.toml")
    result = sidecar("check", "--json", "--config", odd)
    assert result.exit_code == 1
    assert json.loads(result.output)["problems"] == [f"{odd}: cannot be read: No such file or directory"]
    config.rename(odd)
    result = sidecar("check", "--json", "--config", odd)
    assert result.exit_code == 0
    assert json.loads(result.output)["config"] == str(odd)


ENCRYPTED = (
    'upstream = "127.0.0.1:19092"\n[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
    '[names]\nsasl.mechanism = "PLAIN"\nsasl.username = "me"\nsasl.password.file = "password"\n'
)


GIVEN_UP_SECONDS = 15
"""Whatever opens the file waits for 20."""


@contextmanager
def only_hangs(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The disk of that file is waited for 0.2 s. That of any other has answered at once: on a busy machine a thread
    that asks it may take longer than that."""
    answered, ask = threading.Event(), reading._asked
    answered.set()
    monkeypatch.setattr(reading, "_asked", lambda path: ask(path) if path.name == name else answered)
    with hanging_disk(monkeypatch, lambda file: file.name == name, most_seconds=0.2):
        yield


@pytest.mark.parametrize("hangs", ["proxy.toml", "quotas.toml", "own.pem", "password", "own-token"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_disk_that_hangs_is_told_and_not_waited_for(
    config: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch, hangs: str, options: tuple[str, ...]
) -> None:
    """It waited for as long as the disk hung, and did not say for what."""
    Authority(config.parent).issue("own.pem", ["kafka-101", "127.0.0.1"])
    (config.parent / "password").write_text("sesame")
    (config.parent / "own-token").write_text("0123456789abcdef-secret")
    (config.parent / "own-token").chmod(0o600)
    config.write_text(config.read_text().replace('upstream = "127.0.0.1:19092"\n', ENCRYPTED))
    options = (*options, "--set", f"http.token_file={config.parent / 'own-token'}")
    began = time.monotonic()
    with only_hangs(hangs, monkeypatch):
        result = sidecar("check", "--config", config, *options)
        assert time.monotonic() - began < GIVEN_UP_SECONDS
    assert result.exit_code == 1
    assert f"{config.parent / hangs}: cannot be read: no answer within 0.2 s" in result.output
    assert "--json" not in options or json.loads(result.output)["ok"] is False


def test_kept_starts_whose_disk_hangs_are_none(config: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = config.parent / "quotas.toml"
    quotas.write_text(
        '[brokers.101]\nleader.replication.throttled.rate = { within = "2h", max = "20MiB/s" }\n'
        'leader.replication.throttled.replicas = "*"\n'
    )
    (config.parent / ".quotas.toml.last-good").write_text("{}")
    began = time.monotonic()
    with only_hangs(".quotas.toml.last-good", monkeypatch):
        result = sidecar("check", "--config", config)
        assert time.monotonic() - began < GIVEN_UP_SECONDS
    assert result.exit_code == 0
    assert "when it is to end is not known here" in result.output


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0o600, "cannot be read: No such file or directory"),
        ("s" * 32, 0o644, "expected permissions that keep others out, found 0644: chmod o= it"),
        ("s" * 8, 0o600, "expected 16 to 4096 characters, found 8"),
    ],
)
def test_a_token_that_run_would_refuse_is_a_problem(
    config: Path, sidecar: Sidecar, content: str | None, mode: int, said: str
) -> None:
    token = config.parent / "token"
    config.write_text(config.read_text() + 'token_file = "token"\n')
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    checked, run = sidecar("check", "--config", config), sidecar("run", "--config", config)
    assert (checked.exit_code, checked.output) == (1, f"Error: http.token_file: {token}: {said}\n")
    assert (run.exit_code, run.output) == (checked.exit_code, checked.output)
    token.write_text("s" * 32)
    token.chmod(0o600)
    assert sidecar("check", "--config", config).exit_code == 0


@pytest.mark.parametrize("directory", ["proxy.toml", "proxy.toml/journal"])
def test_a_file_in_the_place_of_the_journals_directory_is_a_problem(
    config: Path, sidecar: Sidecar, directory: str
) -> None:
    config.write_text(config.read_text() + f'[journal]\ndirectory = "{directory}"\n')
    checked = sidecar("check", "--config", config)
    said = f"Error: journal.directory: expected a directory, found {config}, which is none\n"
    assert (checked.exit_code, checked.output) == (1, said)
    assert sidecar("run", "--config", config).exit_code == 1


def test_a_place_of_the_journal_that_cannot_be_looked_at_is_a_problem(config: Path, sidecar: Sidecar) -> None:
    link = config.parent / "journal"
    link.symlink_to("j" * 300)
    checked = sidecar("check", "--config", config, "--set", f"journal.directory={link}")
    said = f"Error: journal.directory: {link}: cannot be read: File name too long\n"
    assert (checked.exit_code, checked.output) == (1, said)


def test_a_journals_directory_that_is_yet_to_be_made_is_none(config: Path, sidecar: Sidecar) -> None:
    config.write_text(config.read_text() + '[journal]\ndirectory = "a/b"\n')
    assert sidecar("check", "--config", config).exit_code == 0
    assert not (config.parent / "a").exists()
