#!/bin/sh
# .deb: "install", or "upgrade"; .rpm: 1 at first, 2 and more at upgrades. Nothing is unpacked if this refuses.
set -e
unit=/etc/systemd/system/kafka-throttle-sidecar.socket
if [ -e "$unit" ]; then
  echo "kafka-throttle-sidecar: $unit holds the sidecar's ports, and from 0.2.0 on the sidecar takes no sockets of systemd's." \
    "Remove it first: systemctl disable --now kafka-throttle-sidecar.socket && rm $unit" >&2
  exit 1
fi
