"""`check` asks the sidecar that runs, and guesses nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import trio
from click.testing import CliRunner, Result

from operating.cli import cli
from proxy.config.settings import load_settings
from proxy.observing.condition_checks import LOOK_SECONDS
from tests.proxy.serving.test_sidecar import running, settings, write_quotas

from ..another_user import closed, open_folder
from ..guard.test_probing import answering

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from proxy.config.settings import Settings

RATE = "leader.replication.throttled.rate"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="throttle-sidecar")


def with_control(folder: Path) -> Settings:
    """A sidecar whose state is where its service manager has put it, which no shell knows."""
    write_quotas(folder, '"50MiB/s"')
    path = settings(folder, upstream=1).path
    path.write_text(f'{path.read_text()}\n[control]\ndirectory = "{folder / "control"}"\n')
    (folder / "elsewhere").mkdir()
    return load_settings(path, (), {"STATE_DIRECTORY": str(folder / "elsewhere")})


async def test_check_tells_the_state_of_the_sidecar_that_runs(tmp_path: Path) -> None:
    """It said "50 MiB/s" where 20 MiB/s were enforced: it had looked for the overrides beside the file."""
    of = with_control(tmp_path)
    assert of.quotas.state.parent == tmp_path / "elsewhere"
    async with running(of):
        url = f"unix:{tmp_path / 'control'}"
        done = await trio.to_thread.run_sync(call, "set", RATE, "20MiB/s", "--url", url)
        assert done.exit_code == 0, done.output
        await trio.sleep(1.5 * LOOK_SECONDS)
        shown = await trio.to_thread.run_sync(call, "check", "--config", of.path)
        assert "leader: 20.00 MiB/s (20971520 B/s)  (override " in shown.output
        assert f"overrides: as the running sidecar has them ({url})" in shown.output
        told = json.loads((await trio.to_thread.run_sync(call, "check", "--config", of.path, "--json")).output)
        assert (told["asked"], told["conditions"]) == (url, [])
    stopped = call("check", "--config", of.path)
    assert (stopped.exit_code, "leader: 50.00 MiB/s" in stopped.output) == (0, True), stopped.output


async def test_check_tells_what_is_wrong_with_it(tmp_path: Path) -> None:
    of = with_control(tmp_path)
    async with running(of):
        (tmp_path / "good").write_text((tmp_path / "quotas.toml").read_text())
        (tmp_path / "quotas.toml").write_text("[mode]\nenforce = false\n")
        await trio.sleep(1.5 * LOOK_SECONDS)
        with trio.fail_after(20):
            while True:
                shown = await trio.to_thread.run_sync(call, "check", "--config", of.path)
                if "  observing only, nothing is throttled" in shown.output:
                    break


def test_where_none_runs_it_is_said_where_the_overrides_are_from(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from proxy.quota_files.override_store import store_path, write
    from proxy.quotas.override import Override, PlacedValue

    write_quotas(tmp_path, '"50MiB/s"')
    of = settings(tmp_path, upstream=1)
    store = store_path(of.quotas.state, 101)
    made = Override(id="aaaa", by="ana", since=datetime.now(UTC), changes=(PlacedValue("broker", RATE, "20MiB/s"),))
    write(store, [made])
    shown = call("check", "--config", of.path).output
    assert f"overrides: no sidecar answers here; these are stored in {store}" in shown
    assert "leader: 20.00 MiB/s" in shown


def test_of_a_sidecar_that_this_user_may_not_ask_it_says_that_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with a traceback."""
    with open_folder() as folder:
        (folder / "private").mkdir()
        path = with_control(folder).path
        path.write_text(path.read_text().replace(f"{folder / 'control'}", f"{folder / 'private' / 'control'}"))
        monkeypatch.chdir(folder)
        with closed(folder / "private"):
            shown, as_json = call("check"), call("check", "--json")
    assert (shown.exit_code, "leader: 50.00 MiB/s" in shown.output) == (0, True), shown.output
    (line,) = (each for each in shown.output.splitlines() if each.startswith("overrides: "))
    assert line.startswith("overrides: a sidecar may run, whose overrides and conditions are not known: unix:")
    assert line.endswith("private/control: no answer from a sidecar: Permission denied")
    assert (json.loads(as_json.output)["asked"], json.loads(as_json.output)["overrides"]) == (None, [line])


def test_of_a_sidecar_that_answers_otherwise_it_says_that_nothing_is_known(tmp_path: Path) -> None:
    """One of another version: it was said that none answers."""
    of = with_control(tmp_path)
    (tmp_path / "control").mkdir()
    with answering(tmp_path / "control", 404):
        shown = call("check", "--config", of.path)
    assert shown.exit_code == 0
    assert f"are not known: unix:{tmp_path}/control/config: 404: " in shown.output
