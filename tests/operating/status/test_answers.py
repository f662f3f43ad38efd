from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operating.status.answers import read
from proxy.errors import UnreachableError

if TYPE_CHECKING:
    from tests.proxy.fake_sidecar import FakeSidecar


def test_a_page_is_read(fake: FakeSidecar) -> None:
    page = read(f"{fake.url}/")
    assert fake.paths == ["/throttle"]
    assert (page.broker, page.quotas.hash, page.roles["leader"].lag_messages) == (101, "abc", 12345)


@pytest.mark.parametrize(
    "content", [b"<html>", b"{}", b'{"policy": "\xff"}', b"[]", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_another_server_is_not_taken_for_a_sidecar(fake: FakeSidecar, content: bytes) -> None:
    fake.content = content
    with pytest.raises(UnreachableError, match=f"{fake.url}: the answer is not a sidecar's"):
        read(fake.url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://", "http://[::1", "localhost:9404", "file:///etc/passwd"]
)
def test_no_answer_names_the_url(url: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        read(url)
    assert str(caught.value).startswith(url)
