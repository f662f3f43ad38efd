#!/bin/sh
# .deb: "remove", or "upgrade"; .rpm: 0 at the last removal, more at upgrades.
set -e
case ${1-} in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now kafka-throttle-guard.service kafka-throttle-sidecar.service kafka-throttle-redirect.service
    fi
    ;;
esac
# What Python compiled here, which no package lists. Not when rpm upgrades (1 and more): the new version's script has run by
# then, and the bytecode is of the new version; postremove.sh deletes what that leaves.
case ${1-} in
  [1-9]*) ;;
  *) find /usr/lib/kafka-throttle-sidecar -name __pycache__ -prune -exec rm -rf {} + ;;
esac
