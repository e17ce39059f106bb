# shellcheck shell=bash
#
# own_network   words that start a command in a network of its own, with the loopback only; none where that is not
#               permitted. Unit tests that run at the same time have no port in common then, of which those below
#               1024 are few.
own_network=(unshare -n sh -c 'ip link set lo up && exec "$@"' sh)
"${own_network[@]}" true 2>/dev/null || own_network=()
