from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lab.cluster.admin_client
from lab.cluster.admin import Admin
from lab.cluster.kafka_python import KafkaError, NodeNotReadyError, UnknownBrokerIdError
from lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path


class FakeClient:
    """Stands in for kafka-python's admin client; fails with these errors, one after the other."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.asked = 0
        self.forgotten = 0
        self.deleted: list[str] = []

    def delete_topics(self, topics: list[str], **_: object) -> None:
        self.asked += 1
        if self._errors:
            raise self._errors.pop(0)
        self.deleted += topics

    def describe_topics(self) -> list[dict[str, str]]:
        return [{"name": "orders", "topic_id": "00000000-0000-0000-0000-000000000001"}]

    def forget_controller(self) -> None:
        self.forgotten += 1


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> tuple[Admin, FakeClient]:
    client = FakeClient(*errors)
    monkeypatch.setattr(lab.cluster.admin_client, "AdminClient", lambda **_: client)
    monkeypatch.setattr(lab.cluster.admin_client.time, "sleep", lambda _: None)
    return Admin(hosts=tmp_path / "hosts", names=["kafka-101"]), client


def test_another_controller_is_looked_for_when_the_one_it_knew_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, client = made(tmp_path, monkeypatch, UnknownBrokerIdError(103), NodeNotReadyError(103))
    admin.delete_topic("orders")
    assert (client.deleted, client.asked, client.forgotten) == (["orders"], 3, 2)


def test_what_may_have_been_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, client = made(tmp_path, monkeypatch, KafkaError("cut off"))
    with pytest.raises(LabError, match=r"deleting topic orders: KafkaError.*cut off"):
        admin.delete_topic("orders")
    assert (client.asked, client.forgotten) == (1, 0)


def test_topic_ids_are_written_as_on_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, _ = made(tmp_path, monkeypatch)
    assert admin.topic_names() == {"AAAAAAAAAAAAAAAAAAAAAQ": "orders"}
