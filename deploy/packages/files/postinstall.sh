#!/bin/sh
# .deb: "configure"; .rpm: 1 at first, 2 and more at upgrades.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers /usr/lib/sysusers.d/kafka-throttle-sidecar.conf
elif ! getent passwd kafka-throttle >/dev/null; then
  useradd --system --user-group --home-dir / --no-create-home --shell /usr/sbin/nologin kafka-throttle
fi
chgrp kafka-throttle /etc/kafka-throttle-sidecar
chmod 0750 /etc/kafka-throttle-sidecar
# The service may not write beside its libraries, and would compile them at every start.
home=/usr/lib/kafka-throttle-sidecar
for python in python3 python3.13 python3.12 python3.11; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  if [ -d "$home/python$version" ]; then "$python" -m compileall -q "$home/python$version"; fi
done
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # The guard after the sidecar, when that is ready. One that does not start, for a wrong proxy.toml say, is no failed
  # installation: dpkg would then leave other packages unconfigured as well.
  sh "$home/upgrade.sh" ||
    echo "kafka-throttle-sidecar: kafka-throttle-sidecar.service did not start again: journalctl -u kafka-throttle-sidecar" >&2
  systemctl try-restart kafka-throttle-guard.service ||
    echo "kafka-throttle-sidecar: kafka-throttle-guard.service did not start again: journalctl -u kafka-throttle-guard" >&2
fi
