#!/bin/sh
# .deb: "remove", then "purge"; .rpm: 0 at the last removal, after which settings, journals and the user stay, as is usual there.
set -e
case ${1-} in
  purge)
    rm -rf /etc/kafka-throttle-sidecar /var/lib/kafka-throttle-sidecar
    if getent passwd kafka-throttle >/dev/null; then userdel kafka-throttle; fi
    if getent group kafka-throttle >/dev/null; then groupdel kafka-throttle; fi
    ;;
esac
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
