"""One cluster with a node for all tests, which has every image; what each deploys is gone before the next begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.kubernetes.node import cluster_with_node
from tests.deploy.containers import Containers

from .deployed import Deployed
from .images import archive_images

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.kubernetes.control_plane import ControlPlane
    from lab.kubernetes.node import Node


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Node]]:
    archives = archive_images(Containers(), tmp_path_factory.mktemp("images"))
    with cluster_with_node() as (servers, node):
        for archive in archives:
            node.import_image(archive)
            archive.unlink()
        yield servers, node


@pytest.fixture
def deployed(cluster: tuple[ControlPlane, Node], tmp_path: Path) -> Iterator[Deployed]:
    made = Deployed(*cluster, tmp_path)
    made.make_volumes()
    try:
        yield made
    finally:
        made.delete()
