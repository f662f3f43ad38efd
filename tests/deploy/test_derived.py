"""What deploy/ keeps twice is the same twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from deploy.derived import HERE, RULES, derived, prometheus_rule

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", derived(), ids=str)
def test_a_derived_file_is_as_python_m_deploy_writes_it(path: Path) -> None:
    assert path.read_text("utf-8") == derived()[path], "python -m deploy"


def test_the_operators_object_has_every_group_of_the_rules() -> None:
    groups = [
        group for name in RULES for group in yaml.safe_load((HERE / "prometheus" / name).read_text("utf-8"))["groups"]
    ]
    assert yaml.safe_load(prometheus_rule())["spec"] == {"groups": groups}
