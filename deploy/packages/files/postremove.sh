#!/bin/sh
# .deb: "remove", then "purge"; .rpm: 0 at the last removal, after which settings, journals and the user stay, as is usual there;
# 1 and more at upgrades, once what only the old version had is deleted.
set -e
home=/usr/lib/kafka-throttle-sidecar
case ${1-} in
  [1-9]*)
    # The bytecode of modules that the new version has not, and the folders that only that keeps.
    find "$home" -path '*/__pycache__/*' -name '*.pyc' | while read -r compiled; do
      name=${compiled##*/}
      [ -e "${compiled%/__pycache__/*}/${name%%.*}.py" ] || rm -f "$compiled"
    done
    find "$home" -mindepth 1 -depth -type d -empty -delete
    ;;
  purge)
    rm -rf /etc/kafka-throttle-sidecar /var/lib/kafka-throttle-sidecar
    if getent passwd kafka-throttle >/dev/null; then userdel kafka-throttle; fi
    if getent group kafka-throttle >/dev/null; then groupdel kafka-throttle; fi
    ;;
esac
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
