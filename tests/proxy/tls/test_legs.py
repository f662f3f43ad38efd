"""Certificates change while connections come and go."""

from __future__ import annotations

import datetime as dt
import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from proxy.config.settings_tables import LimitSettings
from proxy.config.tls_settings import ClientAuth, RoleTls, StoreSettings
from proxy.errors import ConfigurationError
from proxy.tls import legs as module
from proxy.tls.legs import Legs, open_legs

from ..hanging_disk import hanging_disk
from ..recorded_log import RecordedLog
from .stage import NAME, Keys, connected

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMITS = LimitSettings(1, 1, 1.0, 1.0)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "tls")


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


def look(legs: Legs, times: int = 2) -> None:
    """A change counts when it has rested from one look to the next."""
    for _ in range(times):
        for kept in legs._kept.values():
            legs._look(kept)


async def serial(legs: Legs, keys: Keys) -> str:
    """Of the certificate that a new connection is shown."""
    (leg,) = legs
    async with connected(leg, keys.client()) as (_, peer):
        return str(dict(peer.getpeercert() or {})["serialNumber"])


async def test_new_connections_take_the_new_one_and_open_ones_stay(keys: Keys, log: RecordedLog) -> None:
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    (leg,) = legs
    async with connected(leg, keys.client()) as (own, peer):
        before = str(dict(peer.getpeercert() or {})["serialNumber"])
        keys.authority.issue("own.pem", [NAME])
        look(legs)
        assert await serial(legs, keys) != before
        peer.sendall(b"still here")
        space = memoryview(bytearray(100))
        assert own.receive_into(space) == 10
    assert log.events == ["tls_keys_renewed"]
    assert dict(legs.reloads()) == {("ingress.listen", "success"): 1, ("ingress.listen", "failed"): 0}


async def test_a_swapped_link_is_a_change(keys: Keys, log: RecordedLog) -> None:
    """As Kubernetes replaces a secret: ..data leads to another folder."""
    for folder in ("one", "two"):
        (keys.home / folder).mkdir()
    keys.own.rename(keys.home / "one" / "own.pem")
    data = keys.home / "..data"
    data.symlink_to("one")
    keys.own.symlink_to("..data/own.pem")
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    before = await serial(legs, keys)
    keys.authority.issue("fresh.pem", [NAME]).rename(keys.home / "two" / "own.pem")
    (keys.home / "..data_tmp").symlink_to("two")
    (keys.home / "..data_tmp").rename(data)
    look(legs)
    assert await serial(legs, keys) != before


async def test_a_bad_one_keeps_the_last_good_one_and_says_so_until_a_good_one_comes(
    keys: Keys, log: RecordedLog
) -> None:
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    before = await serial(legs, keys)
    keys.own.write_text("no certificate")
    look(legs, times=5)
    assert await serial(legs, keys) == before
    assert log.events == ["tls_keys_refused"]
    assert legs.warnings[0].startswith(f"ingress.listen: the last good keys stay in use: {keys.own}: expected PEM")
    keys.own.unlink()
    look(legs, times=5)
    assert "No such file" in legs.warnings[0]
    keys.authority.issue("own.pem", [NAME])
    look(legs)
    assert legs.warnings == []
    assert dict(legs.reloads()) == {("ingress.listen", "success"): 1, ("ingress.listen", "failed"): 2}


async def test_a_valid_certificate_is_not_replaced_by_one_that_has_expired(keys: Keys, log: RecordedLog) -> None:
    """It was, and every new connection failed."""
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    before = await serial(legs, keys)
    keys.authority.issue("own.pem", [NAME], expires=dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
    look(legs, times=5)
    assert await serial(legs, keys) == before
    assert log.events == ["tls_keys_refused"]
    assert dict(legs.reloads()) == {("ingress.listen", "success"): 0, ("ingress.listen", "failed"): 1}
    (warning,) = legs.warnings
    assert warning.startswith(
        f"ingress.listen: the last good keys stay in use: {keys.own}: expected a certificate that is valid now, found "
    )
    keys.authority.issue("own.pem", [NAME])
    look(legs)
    assert (legs.warnings, await serial(legs, keys) == before) == ([], False)


@pytest.mark.parametrize("passes", ["the new one begins", "the old one ends"])
async def test_a_certificate_that_is_not_valid_yet_is_taken_when_it_is_the_better_one(
    keys: Keys, log: RecordedLog, monkeypatch: pytest.MonkeyPatch, passes: str
) -> None:
    """Without another change of the file."""
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    (leg,) = legs
    in_use = leg.loaded
    month = 30 * 86_400
    (old,) = in_use.identities
    later = time.time() + month / 2 if passes == "the new one begins" else time.time() + 2 * month
    begins = time.time() + (month / 4 if passes == "the new one begins" else 3 * month)
    fresh = replace(old, valid=(begins, begins + month))
    monkeypatch.setattr(module, "_load", lambda _: replace(in_use, identities=(fresh,)))
    keys.own.write_text(keys.own.read_text() + "\n")
    look(legs, times=3)
    assert leg.loaded is in_use
    monkeypatch.setattr(time, "time", lambda: later)
    look(legs, times=1)
    assert leg.loaded.identities == (fresh,)
    assert log.events == ["tls_keys_refused", "tls_keys_renewed"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE])
async def test_what_could_not_be_opened_is_tried_again(
    keys: Keys, log: RecordedLog, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Neither a permission that is given later nor a descriptor that is free again changes a file's size or time."""
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    before = await serial(legs, keys)
    keys.authority.issue("own.pem", [NAME])

    def refuse(*_: object, **__: object) -> bytes:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr("proxy.files.reading.os.open", refuse)
        look(legs, times=5)
    assert "cannot be read" in legs.warnings[0]
    assert dict(legs.reloads())["ingress.listen", "failed"] == 1
    look(legs, times=1)
    assert legs.warnings == []
    assert await serial(legs, keys) != before
    assert log.events == ["tls_keys_refused", "tls_keys_renewed"]
    look(legs, times=3)
    assert dict(legs.reloads())["ingress.listen", "success"] == 1


def test_a_file_that_is_being_written_is_not_read(keys: Keys, log: RecordedLog) -> None:
    legs = open_legs([RoleTls(listen=keys.listen())], limits=LIMITS, log=log)
    for size in range(5):
        keys.own.write_text("x" * size)
        look(legs, times=1)
    assert log.events == []


async def test_what_ends_first_is_known(keys: Keys, log: RecordedLog) -> None:
    legs = open_legs([RoleTls(listen=keys.listen(), upstream=keys.upstream())], limits=LIMITS, log=log)
    month = time.time() + 30 * 86_400
    for leg in legs:
        assert {what: round((when - month) / 60) for what, when in leg.loaded.expires.items()} == {
            "keystore": 0,
            "truststore": 0,
        }
    for leg in legs:
        leg.loaded.expires["keystore"] = time.time() - 1
    assert len(legs.warnings) == 2


async def test_an_old_authority_beside_a_good_one_ends_nothing(tmp_path: Path, keys: Keys, log: RecordedLog) -> None:
    """A truststore that holds both while certificates are renewed, and the old one longer than it lasts."""
    gone = keys.authority.issue("gone.pem", ["old"], expires=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    both = tmp_path / "both.pem"
    old = x509.load_pem_x509_certificate(gone.read_bytes()).public_bytes(Encoding.PEM)
    both.write_bytes(keys.authority.certificate.read_bytes() + old)
    settings = keys.listen(ClientAuth.REQUIRED, truststore=StoreSettings(both))
    legs = open_legs([RoleTls(listen=settings)], limits=LIMITS, log=log)
    (leg,) = legs
    async with connected(leg, keys.client(presents=keys.own)):
        pass
    assert legs.warnings == [
        "ingress.listen: a certificate of its truststore has expired: new connections that need it fail"
    ]


def test_every_problem_is_told_at_the_start(keys: Keys, log: RecordedLog) -> None:
    keys.own.write_text("")
    with pytest.raises(ConfigurationError) as raised:
        open_legs([RoleTls(listen=keys.listen(), upstream=keys.upstream())], limits=LIMITS, log=log)
    assert [problem.partition(":")[0] for problem in raised.value.problems] == ["ingress.listen", "ingress.upstream"]


def test_a_disk_that_hangs_keeps_no_start_waiting(
    keys: Keys, log: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was listened on, and nothing said why, for as long as the disk hung."""
    roles, began = [RoleTls(listen=keys.listen(), upstream=keys.upstream())], time.monotonic()
    with hanging_disk(monkeypatch, lambda file: file == keys.own, most_seconds=0.2):
        with pytest.raises(ConfigurationError) as raised:
            open_legs(roles, limits=LIMITS, log=log)
        assert time.monotonic() - began < 15  # it hangs for 20 s
    assert raised.value.problems == tuple(
        f"{leg}: {keys.own}: cannot be read: no answer within 0.2 s" for leg in ("ingress.listen", "ingress.upstream")
    )


def test_a_path_that_none_can_be_is_told_like_others(keys: Keys, log: RecordedLog) -> None:
    impossible = keys.listen(keystores=(StoreSettings(Path("own\0.pem")),))
    with pytest.raises(ConfigurationError, match="embedded null"):
        open_legs([RoleTls(listen=impossible)], limits=LIMITS, log=log)


def test_who_is_not_verified_is_said(keys: Keys, log: RecordedLog) -> None:
    open_legs([RoleTls(upstream=keys.upstream(verifies_names=False))], limits=LIMITS, log=log)
    assert log.events == ["tls_names_not_verified"]


async def test_a_disk_that_hangs_is_told_and_keeps_no_other_leg_from_its_new_keys(
    keys: Keys, log: RecordedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The legs were looked at one after the other, and whoever looked saw no warning."""
    other = Keys(tmp_path / "other")
    roles = [RoleTls(listen=keys.listen()), RoleTls(listen=replace(other.listen(), name="other.listen"))]
    legs = open_legs(roles, limits=LIMITS, log=log)
    answers, look_at = threading.Event(), module.identities_of

    def hang(files: Sequence[Path]) -> object:
        if files[0].is_relative_to(tmp_path / "tls"):
            answers.wait(20.0)
        return look_at(files)

    monkeypatch.setattr(module, "identities_of", hang)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "HANGS_SECONDS", 0.05)
    before = [leg.loaded for leg in legs]

    def kept() -> list[bool]:
        return [leg.loaded is old for leg, old in zip(legs, before, strict=True)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(legs.run)
        other.authority.issue("own.pem", [NAME])
        told = ["ingress.listen: the last good keys stay in use: the disk of its files does not answer"]
        with trio.fail_after(30):
            while (kept(), legs.warnings) != ([True, False], told):  # noqa: ASYNC110 - files
                await trio.sleep(0.02)
            answers.set()
            while legs.warnings:  # noqa: ASYNC110 - as above
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
