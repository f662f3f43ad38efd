"""``set``, ``undo`` and ``overrides``: at one sidecar and at many, dead ones among them."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from operating import configuration
from operating.cli import cli
from operating.fleet import members
from proxy.quota_files.override_store import load, store_path
from proxy.quotas.keys import CLIENT_RATES, ClientTraffic

from ..another_user import closed, open_folder
from ..fleet.sidecars import QUOTAS, RATE, fleet_file, running
from ..guard.test_probing import answering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..fleet.sidecars import OneSidecar

MIB = 2**20


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="throttle-sidecar")


@pytest.fixture
def sidecars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, OneSidecar]]:
    monkeypatch.setenv("THROTTLE_TOKEN_FILE", str(tmp_path / "token"))
    with running(tmp_path, [101, 102, 103]) as found:
        yield found


@pytest.fixture
def fleet(tmp_path: Path, sidecars: dict[int, OneSidecar]) -> Path:
    return fleet_file(tmp_path, {broker: each.url for broker, each in sidecars.items()})


def undo_in(output: str) -> list[str]:
    (line,) = re.findall(r"^undo: throttle-sidecar (.+)$", output, re.MULTILINE)
    return str(line).split()


def test_one_sidecar_and_back(sidecars: dict[int, OneSidecar]) -> None:
    one = sidecars[101]
    done = call("set", RATE, "20MiB/s", "--for", "2h", "--url", one.url, "--reason", "disk 3")
    assert (done.exit_code, one.rate) == (0, 20 * MIB), done.output
    assert "was  50.00 MiB/s (52428800 B/s)  (brokers.default)" in done.output
    assert re.search(
        r"now  20\.00 MiB/s \(20971520 B/s\)  \(override [0-9a-f]{6}, until .* UTC, in 2h00m\)", done.output
    )
    listed = call("overrides", "--url", one.url)
    assert "why  disk 3" in listed.output
    assert "hides 50.00 MiB/s (52428800 B/s), brokers.default" in listed.output
    undone = call(*undo_in(done.output))
    assert (undone.exit_code, one.rate) == (0, 50 * MIB), undone.output
    assert "no overrides: quotas.toml holds" in call("overrides", "--url", one.url).output
    assert one.quotas.read_text() == QUOTAS


def test_a_whole_fleet_is_one_line_and_one_undo(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    done = call("set", RATE, "20MiB/s", "--fleet", fleet)
    assert done.output.splitlines()[0] == "brokers 101-103:"
    assert [each.rate for each in sidecars.values()] == [20 * MIB] * 3
    assert call(*undo_in(done.output)).exit_code == 0
    assert [each.rate for each in sidecars.values()] == [50 * MIB] * 3


def test_at_and_except(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    assert call("set", RATE, 1, "--fleet", fleet, "--at", 102).exit_code == 0
    assert call("set", RATE, 2, "--fleet", fleet, "--except", 102).exit_code == 0
    assert [each.rate for each in sidecars.values()] == [2, 1, 2]
    assert "has no broker 7" in call("set", RATE, 1, "--fleet", fleet, "--at", 7).output
    assert "choose among the members of a --fleet" in call("set", RATE, 1, "--url", "http://x", "--at", 7).output


def test_thirty_of_which_twelve_are_dead(tmp_path: Path) -> None:
    """Within two seconds, in at most fifteen lines, with one undo for all that were changed."""
    with running(tmp_path, range(101, 119)) as alive, socket.create_server(("0.0.0.0", 0)) as silent:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            dead = {broker: f"http://127.0.0.{broker}:{nobody.getsockname()[1]}" for broker in range(119, 125)}
            # These take the connection and never answer.
            dead |= {broker: f"http://127.0.0.{broker}:{silent.getsockname()[1]}" for broker in range(125, 131)}
            fleet = fleet_file(tmp_path, {broker: each.url for broker, each in alive.items()} | dead)
            began = time.monotonic()
            done = call("set", "mode.enforce", "false", "--fleet", fleet)
            took = time.monotonic() - began
        assert (done.exit_code, len(done.output.splitlines()) <= 15) == (1, True), done.output
        assert "brokers 101-118:" in done.output
        assert "brokers 119-130: no answer" in done.output
        assert took < 10, "about 2 s on a quiet machine"
        assert not any(each.watch.current.enforce for each in alive.values())
        assert call(*undo_in(done.output)).exit_code == 1, "those that do not answer may still have it"
        assert all(each.watch.current.enforce for each in alive.values())


def test_labels_are_undone_together_and_nothing_else_is(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    call("set", RATE, 1, "--fleet", fleet, "--label", "move-a")
    call("set", RATE, 2, "--fleet", fleet, "--at", 102)
    call("set", "leader.replication.throttled.replicas", "", "--topic", "orders", "--fleet", fleet, "--label", "move-a")
    undone = call("undo", "--label", "move-a", "--fleet", fleet)
    assert undone.exit_code == 0, undone.output
    assert [each.rate for each in sidecars.values()] == [50 * MIB, 2, 50 * MIB]
    assert [len(each.keeper.current) for each in sidecars.values()] == [0, 1, 0]
    assert call("undo", "--label", "move-a", "--fleet", fleet).exit_code == 1


def test_the_incident_card_stops_a_fleet_and_starts_it_again_whatever_was_set_since(
    sidecars: dict[int, OneSidecar], fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fleet.parent)
    card = (Path(__file__).parents[3] / "docs" / "incident.md").read_text("utf-8")
    stop, start = re.findall(r"^ {4}throttle-sidecar ((?:set|undo) .+ --fleet fleet\.toml)\b", card, re.MULTILINE)
    done = call(*stop.split())
    assert (done.exit_code, [each.enforces for each in sidecars.values()]) == (0, [False] * 3), done.output
    call("set", RATE, "10MiB/s", "--fleet", fleet, "--at", 102)
    done = call(*start.split())
    assert (done.exit_code, [each.enforces for each in sidecars.values()]) == (0, [True] * 3), done.output
    assert [each.rate for each in sidecars.values()] == [50 * MIB, 10 * MIB, 50 * MIB]


def test_a_member_without_it_is_named_and_no_failure(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    done = call("set", RATE, 1, "--fleet", fleet, "--at", 102)
    undone = call("undo", undo_in(done.output)[1], "--fleet", fleet)
    assert (undone.exit_code, "brokers 101, 103: refused: no override" in undone.output) == (0, True), undone.output


def test_a_torn_file_at_one_member_keeps_nothing_from_being_switched_off(
    sidecars: dict[int, OneSidecar], fleet: Path
) -> None:
    sidecars[102].quotas.write_bytes(QUOTAS.encode()[:40])
    assert call("set", "mode.enforce", "false", "--fleet", fleet).exit_code == 0
    assert not any(each.watch.current.enforce for each in sidecars.values())


def test_a_member_that_is_another_brokers_sidecar_is_named_and_not_said_to_be_silent(
    tmp_path: Path, sidecars: dict[int, OneSidecar]
) -> None:
    """It was reported as broker 101, with no answer, although it had been changed."""
    fleet = fleet_file(tmp_path, {102: sidecars[102].url, 103: sidecars[101].url, 104: "http://127.0.0.1:1"})
    done = call("set", RATE, 1, "--fleet", fleet)
    url = sidecars[101].url
    told = f"broker 103: {url} is the sidecar of broker 101, not of 103, and has made the change; correct fleet.toml"
    assert (done.exit_code, told in done.output.splitlines()) == (1, True), done.output
    assert "broker 104: http://127.0.0.1:1: no answer" in done.output
    assert call(*undo_in(done.output)).exit_code == 1
    assert [each.rate for each in sidecars.values()] == [50 * MIB] * 3
    assert f"broker 103: {url} is the sidecar of broker 101, not of 103" in call("overrides", "--fleet", fleet).output


def test_differences_between_members_are_shown(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    call("set", RATE, 1, "--fleet", fleet, "--except", 103)
    assert "at   brokers 101-102; not at broker 103" in call("overrides", "--fleet", fleet).output


def test_of_one_override_each_member_is_said_what_holds_there(sidecars: dict[int, OneSidecar], fleet: Path) -> None:
    """The first member's view was printed as everybody's: hidden at 101 only, it was said to be so at 102 as well."""
    call("set", RATE, 1, "--fleet", fleet)
    call("set", RATE, 2, "--fleet", fleet, "--at", 101)
    lines = call("overrides", "--fleet", fleet).output.splitlines()
    first, second = lines.index("  broker 101:"), lines.index("  brokers 102-103:")
    assert (lines[first + 1].endswith("NOT EFFECTIVE: hidden by a newer override"), second) == (True, first + 2), lines
    assert lines[second + 1].endswith("(hides 50.00 MiB/s (52428800 B/s), brokers.default)")
    assert lines[second + 2] == "  at   brokers 101-103"


def test_an_undo_that_cannot_be_stored_is_done_and_says_so(sidecars: dict[int, OneSidecar]) -> None:
    one = sidecars[101]
    call("set", RATE, 1, "--url", one.url)
    one.keeper._path = one.keeper._path.parent / "gone" / "overrides-101.json"
    refused = call("set", RATE, 2, "--url", one.url)
    assert (refused.exit_code, "not stored, so nothing has changed" in refused.output) == (1, True), refused.output
    undone = call("undo", "--last", "--url", one.url)
    assert (undone.exit_code, one.rate) == (1, 50 * MIB), undone.output
    assert "broker 101: in force, but a restart would revert it until it is stored: " in undone.output


def test_the_newest_wins_and_the_one_below_is_said_to_be_hidden(sidecars: dict[int, OneSidecar]) -> None:
    url = sidecars[101].url
    call("set", RATE, 1, "--url", url)
    call("set", RATE, 2, "--url", url)
    assert call("overrides", "--url", url).output.count("NOT EFFECTIVE: hidden by a newer override") == 1
    assert call("undo", "--last", "--url", url).exit_code == 0
    assert sidecars[101].rate == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((RATE, "5 apples"), "refused: brokers.101.leader.replication.throttled.rate"),
        (("leader.rate", "1"), "unknown key"),
        ((RATE,), "expected a VALUE after it"),
        ((RATE, "1", "--for", "soon"), "--for: expected a time like 2h"),
        ((RATE, "1", "--until", "2020-01-01T00:00:00Z"), "expected a time in the future"),
        ((RATE, "1", "--for", "2h", "--until", "9000-01-01T00:00:00Z"), "expected one end, found 2h and 9000"),
        ((RATE, "1", "--peer", "x"), "peers.x: expected the other broker's id"),
        ((RATE, "1", "--peer", "102", "--rack", "a"), "expected one of them"),
        (("producer_byte_rate", "1"), "is of clients: expected --client or --user"),
        (("producer_byte_rate", "1", "--topic", "x"), "is of clients: expected --client or --user"),
        (("producer_byte_rate", "0", "--client", "x"), "expected a rate above 0"),
        (("catch_up_only", "true", "--client", "x"), "expected consumer_byte_rate in the same section"),
        (("catch_up_only", "yes", "--client", "x"), "expected true or false"),
        (("catch_up_only", "true"), "is of clients"),
        ((RATE, "1", "--client", "x"), "unknown key; expected one of producer_byte_rate"),
        ((RATE, "1", "--client", "x", "--peer", "102"), "expected one of them"),
        ((RATE, "1", "--user", "x"), "users.x.leader.replication.throttled.rate: unknown key"),
        (("producer_byte_rate", "1", "--user", "x", "--peer", "102"), "expected one of them"),
        (("producer_byte_rate", "1", "--user", ""), "with a name, a glob or default"),
        (("mode.enforce", "no"), "expected true or false"),
        (("mode.enforce", "true", "--topic", "x"), "leave out --topic"),
        ((RATE, "{ auto = true"), "inline table"),
        ((RATE, '{ finish_by = "2020-01-01T00:00:00Z", max = "1MiB/s" }'), "finish_by"),
    ],
)
def test_what_is_refused(sidecars: dict[int, OneSidecar], arguments: tuple[str, ...], said: str) -> None:
    done = call("set", *arguments, "--url", sidecars[101].url)
    assert (done.exit_code, said in done.output) == (1, True), done.output
    assert sidecars[101].keeper.current == ()


def test_a_quota_of_a_client(sidecars: dict[int, OneSidecar]) -> None:
    url = sidecars[101].url
    done = call("set", "producer_byte_rate=3,consumer_byte_rate=4", "--client", "etl.1-*", "--url", url)
    clients = sidecars[101].watch.current.clients
    said = [clients.by_label(key) for key in CLIENT_RATES.values()]
    assert (done.exit_code, said) == (0, [{"etl.1-*": 3.0}, {"etl.1-*": 4.0}])
    assert "clients.etl.1-*: producer_byte_rate" in done.output
    assert call("undo", "--last", "--url", url).exit_code == 0
    assert not sidecars[101].watch.current.clients


def test_a_rate_for_catching_up_alone(sidecars: dict[int, OneSidecar]) -> None:
    url = sidecars[101].url
    done = call("set", "consumer_byte_rate=4,catch_up_only=true", "--client", "mirror", "--url", url)
    consumer = sidecars[101].watch.current.clients.in_words(CLIENT_RATES[ClientTraffic.CONSUMER])
    assert (done.exit_code, consumer) == (0, {"mirror": "4 B/s, catch-up only"}), done.output
    assert "clients.mirror: catch_up_only\n    was  false" in done.output


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (("--user", "CN=etl,O=a.b"), "users.CN=etl,O=a.b"),
        (("--user", "alice", "--client", "etl.1"), "users.alice.clients.etl.1"),
        (("--user", "default", "--client", "default"), "users.default.clients.default"),
    ],
)
def test_a_quota_of_a_user(sidecars: dict[int, OneSidecar], options: tuple[str, ...], place: str) -> None:
    url = sidecars[101].url
    done = call("set", "producer_byte_rate", "3", *options, "--url", url)
    said = sidecars[101].watch.current.clients.by_label(CLIENT_RATES[ClientTraffic.PRODUCER])
    assert (done.exit_code, said) == (0, {place: 3.0}), done.output
    assert f"{place}: producer_byte_rate" in done.output


def test_pairs_as_kafka_configs_takes_them(sidecars: dict[int, OneSidecar]) -> None:
    done = call("set", f"{RATE}=3,follower.replication.throttled.rate=4", "--url", sidecars[101].url)
    quotas = sidecars[101].watch.current
    assert (done.exit_code, quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == (0, 3, 4)


def test_a_rate_without_its_unit_is_warned_of(sidecars: dict[int, OneSidecar]) -> None:
    url = sidecars[101].url
    assert f"warning: {RATE}: the rate is 20 B/s, " in call("set", RATE, 20, "--url", url).output
    for value in (0, "20MiB/s"):
        assert "warning" not in call("set", RATE, value, "--url", url).output


@pytest.mark.parametrize(
    ("typed", "warning"),
    [
        (("producer_byte_rate", "5", "--client", "x9"), "warning: clients.x9.producer_byte_rate: the rate is 5 B/s"),
        (("producer_byte_rate=2048.0", "--client", "x9"), None),
        (("listener.rate", "50"), "warning: listener.rate: the rate is 50 B/s"),
        (("producer_byte_rate", "1MiB/s", "--user", "User:alice"), "warning: users.User:alice: no user has this name"),
    ],
)
def test_what_is_hardly_meant_is_warned_of(
    sidecars: dict[int, OneSidecar], typed: tuple[str, ...], warning: str | None
) -> None:
    done = call("set", *typed, "--url", sidecars[101].url)
    assert done.exit_code == 0, done.output
    assert (warning in done.output) if warning else "warning" not in done.output


@pytest.mark.parametrize(
    ("typed", "warning"),
    [
        (
            ("follower.replication.throttled.rate", "5MiB/s"),
            "warning: broker 101: follower: a quota of 5.00 MiB/s (5242880 B/s) is set, but no replicas are listed",
        ),
        (
            ("leader.replication.throttled.replicas", ""),
            "warning: broker 101: leader: a quota of 50.00 MiB/s (52428800 B/s) is set, but no replicas are listed",
        ),
        ((RATE, "5MiB/s", "--peer", "101"), "warning: broker 101: peer 101: is this broker, which replicates nothing"),
        (
            ("leader.replication.throttled.replicas", "101:0", "--topic", "orders"),
            "selects nothing here: expected partition:broker, like 0:101, found 101:0",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of_when_it_is_set(
    sidecars: dict[int, OneSidecar], typed: tuple[str, ...], warning: str
) -> None:
    done = call("set", *typed, "--url", sidecars[101].url)
    assert (done.exit_code, warning in done.output) == (0, True), done.output


def test_a_rate_that_sets_itself(sidecars: dict[int, OneSidecar]) -> None:
    done = call("set", RATE, '{ auto = true, min = "1MiB/s", max = "9MiB/s" }', "--url", sidecars[101].url)
    assert "what does not hurt, from 1.00 MiB/s" in done.output


def test_without_a_token_nobody_changes_anything(
    sidecars: dict[int, OneSidecar], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("THROTTLE_TOKEN_FILE")
    done = call("set", RATE, 1, "--url", sidecars[101].url)
    assert (done.exit_code, "THROTTLE_TOKEN_FILE=FILE" in done.output) == (1, True), done.output


def test_json(sidecars: dict[int, OneSidecar]) -> None:
    made = call("set", RATE, 1, "--url", sidecars[101].url).output
    listed = json.loads(call("overrides", "--url", sidecars[101].url, "--json").output)
    (override,) = listed["sidecars"][0]["overrides"]
    assert f"undo: throttle-sidecar undo {override['id']} --url {sidecars[101].url}" in made
    undone = json.loads(call("undo", override["id"], "--url", sidecars[101].url, "--json").output)
    assert undone["sidecars"][0]["ids"] == [override["id"]]


PROXY = (
    '[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "127.0.0.1:1"\n[http]\nlisten = "127.0.0.1:0"\n'
)


def test_where_no_sidecar_runs_it_says_so_and_offline_stores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proxy.toml").write_text(PROXY)
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    monkeypatch.chdir(tmp_path)
    done = call("set", RATE, 1)
    assert (done.exit_code, "no answer" in done.output) == (1, True), done.output
    stored = call("set", RATE, 1, "--offline")
    assert (stored.exit_code, "it is not in force now" in stored.output) == (0, True), stored.output
    assert len(load(store_path(tmp_path / "state", 101), 101).overrides) == 1


@pytest.mark.parametrize("status", [200, 503])
def test_offline_beside_a_sidecar_that_may_run_stores_nothing(
    tmp_path: Path, private_sockets: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """It was stored in a file that the running sidecar overwrites, unless that one answered well, and within 1.5 s."""
    (tmp_path / "proxy.toml").write_text(PROXY)
    (private_sockets / "101").mkdir()
    monkeypatch.chdir(tmp_path)
    with answering(private_sockets / "101", status):
        done = call("set", RATE, 1, "--offline")
    assert (done.exit_code, [path.name for path in tmp_path.iterdir()]) == (1, ["proxy.toml"]), done.output
    assert f"may run: unix:{private_sockets}/101 accepts connections: leave out --offline" in done.output


def test_a_user_who_may_not_ask_stores_nothing_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_folder() as folder:
        (folder / "proxy.toml").write_text(f'{PROXY}[control]\ndirectory = "control"\n[quotas]\nstate = "a/state"\n')
        for name in ("control", "a"):
            (folder / name).mkdir()
        (folder / "a").chmod(0o777)
        monkeypatch.chdir(folder)
        with closed(folder / "control"):
            done = call("set", RATE, 1, "--offline")
        assert (done.exit_code, "may run: unix:" in done.output, "Permission denied" in done.output) == (1, True, True)
        assert list((folder / "a").iterdir()) == []


def test_a_proxy_toml_leads_to_its_own_brokers_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only control.sock of the host was taken, whoever's it was; and none was an error, also with --offline."""
    (tmp_path / "proxy.toml").write_text(PROXY.replace("101", "902"))
    (tmp_path / "run" / "101").mkdir(parents=True)
    (tmp_path / "run" / "101" / "control.sock").touch()
    monkeypatch.setattr(members, "DEFAULT_BASE", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/throttle")
    assert members.local_url() == "unix:/run/throttle/902"


def test_offline_is_stored_where_the_packages_unit_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit has STATE_DIRECTORY, and an operator's shell has not."""
    (tmp_path / "proxy.toml").write_text(PROXY)
    (tmp_path / "unit").mkdir()
    monkeypatch.setattr(configuration, "PACKAGED", tmp_path / "proxy.toml")
    monkeypatch.setattr(configuration, "UNIT_STATE", tmp_path / "unit")
    monkeypatch.chdir(tmp_path)
    stored = call("set", RATE, 1, "--offline")
    assert (stored.exit_code, len(list((tmp_path / "unit").rglob("overrides-101.json")))) == (0, 1), stored.output


def test_offline_beside_files_of_the_first_hour_is_what_a_start_by_hand_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There proxy.toml is where the packages have it, and no unit: the state is beside quotas.toml."""
    (tmp_path / "proxy.toml").write_text(PROXY)
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    monkeypatch.setattr(configuration, "PACKAGED", tmp_path / "proxy.toml")
    monkeypatch.setattr(configuration, "UNIT_STATE", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    stored = call("set", RATE, 1, "--offline")
    settings = configuration.load_configuration(tmp_path / "proxy.toml")
    store = store_path(settings.quotas.state, 101)
    assert (stored.exit_code, str(store.name) in stored.output) == (0, True), stored.output
    assert [each.changes[0].value for each in load(store, 101).overrides] == ["1"]


def test_set_has_few_options() -> None:
    command = cli.get_command(click.Context(cli), "set")
    assert command is not None
    assert len([each for each in command.params if isinstance(each, click.Option)]) <= 14


def test_a_url_beside_a_fleet_is_refused(sidecars: dict[int, OneSidecar], tmp_path: Path) -> None:
    """Which of them it is for would be a guess, and one of the two would be left as it is without a word."""
    fleet = fleet_file(tmp_path, {101: sidecars[101].url})
    result = call("set", "mode.enforce", "false", "--fleet", fleet, "--url", sidecars[102].url)
    assert (result.exit_code, [each.enforces for each in sidecars.values()]) == (1, [True, True, True]), result.output
    assert "expected --url or --fleet" in result.output
