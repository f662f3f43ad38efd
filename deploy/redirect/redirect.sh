#!/bin/sh
# Leads a broker's connections to other brokers to the sidecar beside it ([egress] mode = "transparent").
# Runs where both are: in the pod's network namespace (init container) or on the host, as root with CAP_NET_ADMIN.
# Can be run again; what it made is in one chain of its own, for IPv4 and IPv6.
set -eu

chain=THROTTLE_SIDECAR
sidecar_uid=65532
to_port=15001
ports=9092

usage() {
  echo "usage: redirect.sh add|remove|show [--uid UID of the sidecar: $sidecar_uid] [--to its egress.listen port: $to_port]" >&2
  echo "       [--ports brokers' ports, with commas: $ports]" >&2
  exit 2
}

action=${1-}
[ $# -gt 0 ] && shift
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --uid) sidecar_uid=$2 ;;
    --to) to_port=$2 ;;
    --ports) ports=$2 ;;
    *) usage ;;
  esac
  shift 2
done

add() {
  remove "$1"
  "$1" -t nat -N $chain
  # What the sidecar dials goes out, or it would meet itself.
  "$1" -t nat -A $chain -m owner --uid-owner "$sidecar_uid" -j RETURN
  "$1" -t nat -A $chain -o lo -j RETURN
  "$1" -t nat -A $chain -p tcp -j REDIRECT --to-ports "$to_port"
  "$1" -t nat -A OUTPUT -p tcp -m multiport --dports "$ports" -j $chain
}

remove() {
  # Whatever ports it was added with.
  "$1" -t nat -S OUTPUT | sed -n "s/^-A \(OUTPUT .*-j $chain\)\$/\1/p" | while read -r rule; do
    # shellcheck disable=SC2086 # iptables' own words
    "$1" -t nat -D $rule
  done
  if "$1" -t nat -F $chain 2>/dev/null; then "$1" -t nat -X $chain; fi
}

show() {
  "$1" -t nat -S | grep $chain || true
}

case $action in add | remove | show) ;; *) usage ;; esac
for family in iptables ip6tables; do
  [ $family = ip6tables ] && [ ! -e /proc/net/if_inet6 ] && continue
  command -v $family >/dev/null || { echo "redirect.sh: $family is missing (Debian: apt-get install iptables)" >&2; exit 1; }
  $action $family
done
