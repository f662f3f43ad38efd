"""Writes the copies below deploy/ and in docs/ of what their readers cannot reach elsewhere: `python -m deploy`.

Invariant: nobody edits the second place; tests/deploy/test_derived.py holds both equal.
"""

from __future__ import annotations

from pathlib import Path

from .condition_reference import with_conditions
from .injection_policy import with_addition
from .quota_reference import with_keys, with_patterns
from .settings_schema import with_settings

HERE = Path(__file__).parent
RULES = ("recording.rules.yaml", "alerts.rules.yaml")
_HEAD = """\
# Written by `python -m deploy` from deploy/prometheus: change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kafka-throttle-sidecar
spec:
"""


def all_rules(rules: Path = HERE / "prometheus") -> str:
    """Return the groups of all files as one list, comments and all."""
    texts = [(rules / name).read_text("utf-8") for name in RULES]
    return "groups:\n" + "".join(text.partition("\ngroups:\n")[2].rstrip("\n") + "\n" for text in texts)


def prometheus_rule() -> str:
    """Return all rules as one object of the Prometheus Operator's."""
    return _HEAD + "".join(f"  {line}\n" if line else "\n" for line in all_rules().splitlines())


def derived() -> dict[Path, str]:
    """Return what is to be in each file."""
    schema = HERE / "helm" / "values.schema.json"
    template = HERE / "helm" / "templates" / "_quotas.tpl"
    page, runbooks = (HERE.parent / "docs" / name for name in ("quotas.md", "runbooks.md"))
    policies = HERE / "kubernetes" / "policies"
    mutating, kyvernos = policies / "kubernetes" / "mutating.yaml", policies / "kyverno" / "cluster-policy.yaml"
    return {
        mutating: with_addition(mutating.read_text("utf-8"), kyvernos.read_text("utf-8")),
        schema: with_settings(schema.read_text("utf-8")),
        template: with_patterns(template.read_text("utf-8")),
        page: with_keys(page.read_text("utf-8")),
        runbooks: with_conditions(runbooks.read_text("utf-8")),
        HERE / "kubernetes" / "components" / "prometheus-operator" / "prometheus-rule.yaml": prometheus_rule(),
    }
