"""Files and ConfigMaps: what was read is replaced, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from operating.fleet.file import ConfigMapKey
from operating.fleet.stores import ConfigMapStore, FileStore
from proxy.errors import ConfigurationError

from .fake_kubectl import FakeKubectl

if TYPE_CHECKING:
    from pathlib import Path

KEY = ConfigMapKey("kafka", "quotas", "quotas.toml")


@pytest.fixture
def kubectl(tmp_path: Path) -> FakeKubectl:
    fake = FakeKubectl(tmp_path / "cluster")
    (fake.folder / "kafka-quotas").write_text(json.dumps({"data": {"quotas.toml": "# ü\n", "other": "x"}}))
    return fake


def content(kubectl: FakeKubectl) -> dict[str, str]:
    return dict(json.loads((kubectl.folder / "kafka-quotas").read_text())["data"])


def test_a_file_is_replaced_if_it_is_what_was_read(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "quotas.toml")
    store.path.write_bytes(b"# a\n")
    store.check_writable()
    store.replace(store.read(), b"# b\n")
    assert store.path.read_bytes() == b"# b\n"
    with pytest.raises(ConfigurationError, match="somebody else has changed it meanwhile"):
        store.replace(b"# a\n", b"# c\n")
    assert store.path.read_bytes() == b"# b\n"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: cannot be read"):
        FileStore(tmp_path / "none.toml").read()


def test_a_folder_that_may_not_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so what the kernel says is made up."""
    (tmp_path / "quotas.toml").write_bytes(b"#")
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    with pytest.raises(ConfigurationError, match="is not writable for this user"):
        FileStore(tmp_path / "quotas.toml").check_writable()


def test_a_key_of_a_config_map_is_replaced_and_no_other(kubectl: FakeKubectl) -> None:
    store = ConfigMapStore(KEY, (str(kubectl.path), "--context", "prod"))
    assert store.read() == "# ü\n".encode()
    store.check_writable()
    assert content(kubectl) == {"quotas.toml": "# ü\n", "other": "x"}
    store.replace(store.read(), b"# b\n")
    assert content(kubectl) == {"quotas.toml": "# b\n", "other": "x"}
    calls = [json.loads(line) for line in (kubectl.folder / "calls").read_text().splitlines()]
    assert all(call[:2] == ["--context", "prod"] for call in calls)


def test_a_config_map_that_somebody_else_changed_stays_as_it_is(kubectl: FakeKubectl) -> None:
    store = ConfigMapStore(KEY, (str(kubectl.path),))
    with pytest.raises(ConfigurationError, match=r"configmap kafka/quotas, quotas\.toml: .* the server rejected"):
        store.replace(b"# older\n", b"# b\n")
    assert content(kubectl)["quotas.toml"] == "# ü\n"


def test_what_kubectl_says_is_told(kubectl: FakeKubectl, tmp_path: Path) -> None:
    kubectl.refuse_writes()
    with pytest.raises(ConfigurationError, match="Forbidden"):
        ConfigMapStore(KEY, (str(kubectl.path),)).check_writable()
    with pytest.raises(ConfigurationError, match="NotFound"):
        ConfigMapStore(ConfigMapKey("kafka", "gone", "q"), (str(kubectl.path),)).read()
    with pytest.raises(ConfigurationError, match="is not there: install kubectl"):
        ConfigMapStore(KEY, (str(tmp_path / "no-kubectl"),)).read()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"data": {}}, "has no such key"),
        ({}, "has no such key"),
        ([], "has no such key"),
        ({"data": {"quotas.toml": 3}}, "expected text"),
        ({"data": {"quotas.toml": "#"}, "immutable": True}, "is immutable"),
    ],
)
def test_a_config_map_that_will_not_do(kubectl: FakeKubectl, document: object, problem: str) -> None:
    (kubectl.folder / "kafka-quotas").write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match=problem):
        ConfigMapStore(KEY, (str(kubectl.path),)).read()
