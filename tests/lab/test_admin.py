from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lab.admin
from lab.admin import Admin
from lab.errors import LabError
from lab.kafka_python import KafkaError, NodeNotReadyError, UnknownBrokerIdError

if TYPE_CHECKING:
    from pathlib import Path


class FakeClients:
    """Stands in for the class of kafka-python's admin client; each client made fails with the next error, if any."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.made: list[FakeClient] = []

    def __call__(self, **_: object) -> FakeClient:
        self.made.append(FakeClient(self._errors.pop(0) if self._errors else None))
        return self.made[-1]


class FakeClient:
    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.deleted: list[str] = []
        self.closed = False

    def delete_topics(self, topics: list[str], **_: object) -> None:
        if self._error:
            raise self._error
        self.deleted += topics

    def describe_topics(self) -> list[dict[str, str]]:
        return [{"name": "orders", "topic_id": "00000000-0000-0000-0000-000000000001"}]

    def close(self) -> None:
        self.closed = True


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *errors: Exception | None) -> tuple[Admin, FakeClients]:
    clients = FakeClients(*errors)
    monkeypatch.setattr(lab.admin, "KafkaAdminClient", clients)
    return Admin(hosts=tmp_path / "hosts", names=["kafka-101"]), clients


@pytest.mark.parametrize("lost", [UnknownBrokerIdError(103), NodeNotReadyError(103)])
def test_a_client_that_lost_its_broker_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Exception
) -> None:
    admin, clients = made(tmp_path, monkeypatch, lost)
    admin.delete_topic("orders")
    assert [client.deleted for client in clients.made] == [[], ["orders"]]
    admin.close()
    assert all(client.closed for client in clients.made)


def test_what_may_have_been_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, clients = made(tmp_path, monkeypatch, KafkaError("cut off"))
    with pytest.raises(LabError, match=r"deleting topic orders: KafkaError.*cut off"):
        admin.delete_topic("orders")
    assert len(clients.made) == 1


def test_topic_ids_are_written_as_on_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, _ = made(tmp_path, monkeypatch)
    assert admin.topic_names() == {"AAAAAAAAAAAAAAAAAAAAAQ": "orders"}
