# shellcheck shell=bash
#
# Network paths between this network namespace, where the clients run, and another one for the server: pairs of veth
# devices, a subnet each, whose rate is limited in both directions, and which can be cut in several ways.
#
#     . "$top/test/lib/paths.sh"
#     paths_lab 4 200mbit              # or skip, with $paths_missing as the reason
#     "${server_space[@]}" PROGRAM...  # in the namespace of the server
#
# The namespace has a name in /run, so /run must be a mount that ends with the script, as the mounts and processes of a
# script of test/integration do. A program in another language runs `bash paths.sh FUNCTION ARGUMENT...`.
#
# Path number N (from 1) is the device path$N on either side. Both families are up:

path_server() { echo "198.18.$1.2"; }
path_client() { echo "198.18.$1.1"; }
path_server6() { echo "fd18:$1::2"; }
path_client6() { echo "fd18:$1::1"; }

server_space=(nsenter --net=/run/netns/server --)
paths_log=${T:+$T/log/paths}
paths_log=${paths_log:-/run/paths.log}

# Batches of `ip`: on the client's side, on the server's.
path_ip() { ip -batch - >>"$paths_log" 2>&1; }
path_ip_server() { ip -netns server -batch - >>"$paths_log" 2>&1; }

# paths_lab N RATE: makes the namespace and N paths. If it cannot, $paths_missing says why. Never in the namespaces of
# the machine itself.
paths_lab() {
    local n
    paths_missing=
    [ "${HARNESS_SPACE:-1}" != 0 ] || paths_missing="namespaces of its own are not permitted"
    for n in ip tc nsenter iptables ip6tables; do
        command -v $n >/dev/null || paths_missing="$n is missing"
    done
    [ -n "$paths_missing" ] || ip netns add server 2>>"$paths_log" || paths_missing="network namespaces are not permitted"
    [ -z "$paths_missing" ] || return 1
    ip -netns server link set lo up
    for ((n = 1; n <= $1; n++)); do
        ip link add "path$n" type veth peer name "path$n" netns server 2>>"$paths_log" ||
            { paths_missing="veth devices are not to be had"; return 1; }
        path_up "$n"
        path_rate "$n" "$2" || { paths_missing="the kernel has no tbf"; return 1; }
        path_tables "$n" -N "path$n" && path_tables "$n" -A INPUT -i "path$n" -j "path$n" ||
            { paths_missing="iptables does not work"; return 1; }
    done
}

# path_tables N WORD...: the same in all tables: of both families, of both sides
path_tables() {
    local n=$1 program
    shift
    for program in iptables ip6tables; do
        $program "$@" >>"$paths_log" 2>&1 && "${server_space[@]}" $program "$@" >>"$paths_log" 2>&1 || return
    done
}

# path_rate N RATE: in both directions. The bucket holds a segment of the largest size, so that none is cut up, and what
# passes in some milliseconds, since timers are late where processors are shared.
path_rate() {
    local side
    for side in "" "-netns server"; do
        # shellcheck disable=SC2086
        tc $side qdisc replace dev "path$1" root tbf rate "$2" burst 512kb latency 100ms >>"$paths_log" 2>&1 || return
    done
}

# path_down N: the link is set down on the side of the client, who has no route any more. path_up N: and up again, with
# its addresses, which IPv6 loses.
path_down() { ip link set "path$1" down; }
path_up() {
    path_ip <<END
link set path$1 up
address replace $(path_client "$1")/24 dev path$1
address replace $(path_client6 "$1")/64 dev path$1 nodad
END
    path_ip_server <<END
link set path$1 up
address replace $(path_server "$1")/24 dev path$1
address replace $(path_server6 "$1")/64 dev path$1 nodad
END
}

# path_unplug N: the far end goes down: the client's link has no carrier, and what it sends goes nowhere.
path_unplug() { ip -netns server link set "path$1" down; }

# path_blackhole N: nothing arrives any more in either direction, and nobody is told. path_reject N: the server's side
# answers everything with a reset. path_heal N: the end of both.
path_blackhole() { path_tables "$1" -A "path$1" -j DROP; }
path_reject() {
    local program
    for program in iptables ip6tables; do
        "${server_space[@]}" $program -A "path$1" -p tcp -j REJECT --reject-with tcp-reset || return
    done
}
path_heal() { path_tables "$1" -F "path$1"; }

# path_reset N: the connections of the path are reset; new ones can be made at once
path_reset() {
    path_reject "$1"
    sleep 0.2
    path_heal "$1"
}

# path_bytes N: what the client has received on the path, in bytes with all headers, as the kernel counts
path_bytes() { ip -s -j link show dev "path$1" | jq '.[0].stats64.rx.bytes'; }

# ---- for scripts that sourced harness.sh ----

# paths_loopback: where there can be no namespaces, path N is the address 127.0.0.N, and cannot be cut
paths_loopback() {
    server_space=() server_bind=0.0.0.0
    path_server() { echo "127.0.0.$1"; }
}

# paths_nfstab LINE...: the configuration with these items, `path: ...` among them, for the server that runs
paths_nfstab() {
    nfstab_write "server: testserver
$(printf '%s\n' "$@")
nfsport: $nfs_port  mntport: $mount_port
export: $mnt  mount: $mnt"
}
# paths_items FUNCTION N...: the items of these paths; the function is path_server or path_server6
paths_items() {
    local n
    for n in "${@:2}"; do echo "path: $("$1" "$n")"; done
}

# paths_counter ADDRESS KEY: from the view `channels`, summed over the connections of a path, of all processes that run
# or ran in this run directory
paths_counter() {
    statistics channels 2>>"$T/log/stat" |
        jq -s --arg path "$1" "[.[][] | select(.path == \$path) | .$2] | add // 0"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    "$@" || { echo "$1: ${paths_missing:-failed; $(tail -n 1 "$paths_log")}" >&2; exit 1; }
fi
