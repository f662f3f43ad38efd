"""What all tests share: how Hypothesis treats a machine that is busy with other tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast inputs are generated says how busy the machine is, nothing of the code: seven invariants "failed" of it
# beside other suites. A test that never ends is pytest-timeout's.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
