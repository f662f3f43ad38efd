#!/bin/sh
# Leads a broker's connections to other brokers to the sidecar beside it ([egress] mode = "transparent").
# Runs where both are: in the pod's network namespace (init container) or on the host, as root with CAP_NET_ADMIN.
# Can be run again; what it made is in one chain of its own, for IPv4 and IPv6. Whatever fails, the rules from before
# hold: arguments are read before anything is changed, and iptables-restore takes all of a change or nothing.
set -eu

chain=THROTTLE_SIDECAR
sidecar_uid=65532
to_port=15001
ports=9092
lock_seconds=5
most_ports=15 # of a multiport match; a range counts twice
most_uid=4294967294

usage() {
  echo "usage: redirect.sh add|remove|show [--uid UID of the sidecar: $sidecar_uid] [--to its egress.listen port: $to_port]" >&2
  echo "       [--ports brokers' ports, with commas: $ports]" >&2
  exit 2
}

wrong() {
  echo "redirect.sh: $1; nothing was changed" >&2
  exit 1
}

# is_number TEXT LEAST MOST: decimal, as iptables takes a leading zero for octal.
is_number() {
  case $1 in '' | *[!0-9]* | 0?* | ???????????*) return 1 ;; esac
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

is_port() {
  is_number "$1" 1 65535
}

are_ports() {
  case ,$1, in *,,* | *[!0-9,:]*) return 1 ;; esac
  found=0
  for one in $(echo "$1" | tr , ' '); do
    is_port "${one%%:*}" && is_port "${one#*:}" && [ "${one%%:*}" -le "${one#*:}" ] || return 1
    case $one in *:*) found=$((found + 2)) ;; *) found=$((found + 1)) ;; esac
  done
  [ $found -le $most_ports ]
}

action=${1-}
[ $# -gt 0 ] && shift
case $action in add | remove | show) ;; *) usage ;; esac
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --uid)
      is_number "$2" 0 $most_uid || wrong "--uid: expected the number of a user, 0 to $most_uid, found \"$2\""
      sidecar_uid=$2
      ;;
    --to)
      is_port "$2" || wrong "--to: expected a port, 1 to 65535, found \"$2\""
      to_port=$2
      ;;
    --ports)
      are_ports "$2" || wrong "--ports: expected at most $most_ports ports, 1 to 65535, with commas (9092,9094), found \"$2\""
      ports=$2
      ;;
    *) usage ;;
  esac
  shift 2
done

# What there is to be, as iptables -S would list it.
redirection() {
  # What the sidecar dials goes out, or it would meet itself.
  echo "-A $chain -m owner --uid-owner $sidecar_uid -j RETURN"
  echo "-A $chain -o lo -j RETURN"
  echo "-A $chain -p tcp -j REDIRECT --to-ports $to_port"
  echo "-A OUTPUT -p tcp -m multiport --dports $ports -j $chain"
}

# in_force FAMILY: the same of what there is, whatever ports it was added with.
in_force() {
  all=$("$1" -t nat -S) || return 1
  printf '%s\n' "$all" | sed -n -e "/^-A $chain /p" -e "/^-A OUTPUT .*-j $chain\$/p"
}

# replace FAMILY RULES: in one transaction. No rules: no chain.
replace() {
  all=$("$1" -t nat -S) || return 1
  chains=$(printf '%s\n' "$all" | sed -n "/^-N $chain\$/p")
  {
    echo "*nat"
    [ -z "$2" ] || echo ":$chain - [0:0]"
    printf '%s\n' "$all" | sed -n "s/^-A \(OUTPUT .*-j $chain\)\$/-D \1/p"
    if [ -n "$2" ]; then
      printf '%s\n' "$2"
    elif [ -n "$chains" ]; then
      echo "-F $chain"
      echo "-X $chain"
    fi
    echo COMMIT
  } | "$1-restore" -w $lock_seconds --noflush
}

# replace_all RULES FAMILY...: for every family, or for none. In a subshell: each call has names of its own.
replace_all() (
  rules=$1 family=$2
  shift 2
  before=$(in_force "$family") || exit 1
  replace "$family" "$rules" || exit 1
  [ $# -eq 0 ] || replace_all "$rules" "$@" || { replace "$family" "$before"; exit 1; }
)

families=
for family in iptables ip6tables; do
  [ $family = ip6tables ] && [ ! -e /proc/net/if_inet6 ] && continue
  for command in $family $family-restore; do
    command -v "$command" >/dev/null || wrong "$command is missing (Debian: apt-get install iptables)"
  done
  families="$families $family"
done

case $action in
  add) wanted=$(redirection) ;;
  remove) wanted= ;;
  show)
    # With the counters of packets and bytes (-c): of each connection the kernel asks table nat about the first packet.
    for family in $families; do "$family" -t nat -v -S | grep $chain || true; done
    exit 0
    ;;
esac
# shellcheck disable=SC2086 # a list of words
replace_all "$wanted" $families || wrong "iptables refused: the rules from before hold"
