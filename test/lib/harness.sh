# shellcheck shell=bash
#
# What every script of test/integration stands on; source it first:
#
#     time_limit=120                   # seconds for the whole script, optional; see limit.c
#     . "$(dirname "$0")/../lib/harness.sh"
#
# The script is started a second time in namespaces of its own (network, mounts, processes), so that ports,
# the port mapper and mounts are its own, and everything it started ends with it. Where namespaces are not
# permitted it runs in the machine's, on free ports, and ends what it started by process id.
#
# Environment:
#     BUILD                     where libdirectnfs.so and directnfs are (build)
#     DIRECTNFS_TEST_PLAIN=1    leave the library out: the same work on plain files; checks of the engine are skipped
#     DIRECTNFS_TEST_DISK=DIR   put the exported directories below DIR (a file system that a server can export)
#                               and not on tmpfs, which nfs-ganesha exports up to version 4 only (then /var/tmp)
#     DIRECTNFS_TEST_BEHIND=MIB let programs leave so much of a file unsent, where the script does not say how much (64)
#     DIRECTNFS_TEST_KEEP=1     keep the temporary directory, and say where it is
#     DIRECTNFS_TEST_SPACE=own|host   namespaces (own where permitted)
#     DIRECTNFS_TEST_INSTALLED=DIR    take the command and the library that are installed with the prefix DIR
#
# Variables for scripts:
#     top, BUILD    the checkout, the build directory
#     directnfs, library, limit    the command, the library and what test/lib/limit.c is, where every user may read them
#     T             temporary directory of this script, short, on tmpfs
#     mnt           the directory that the server exports, which is also the mount directory (kernel-backed)
#     plain_dir     a directory that no mount covers
#     second_address  an address of this machine beside 127.0.0.1, in namespaces of its own
#     nfstab        the configuration that under_preload uses
#
# Output: one line for each check, `ok NAME`, `not ok NAME: REASON` or `skip NAME: REASON`, and lines that begin
# with `#` for people. The exit status is 1 if a check failed. scripts/check adds the lines up.

set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${BUILD:-$top/build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
export BUILD
: "${time_limit:=180}"

# ---- the first start: directory, time limit, namespaces ---------------------------------------------------------

harness_outside() {
    local space=() script status
    if [ "$(id -u)" != 0 ]; then
        echo "skip ${0##*/}: needs root (a server is started, directories are mounted)"
        exit 0
    fi
    T=$(mktemp -d /dev/shm/dn.XXXX) || exit 1
    chmod 755 "$T"
    mkdir "$T/bin"
    # scripts/demo does without the programs of the tests: then seconds are seconds.
    if ! cp "$BUILD/test/lib/limit" "$T/bin" 2>/dev/null; then
        printf '%s\n' '#!/bin/sh' '[ "$1" = -k ] || set -- -k 2 "$@"' 'exec timeout "$@"' >"$T/bin/limit"
        chmod 755 "$T/bin/limit"
    fi
    limit=$T/bin/limit
    case $(ganesha.nfsd -v 2>&1) in
    *" V"[1-4].* | *"not found"*) ;;
    *) export DIRECTNFS_TEST_DISK=${DIRECTNFS_TEST_DISK:-/var/tmp} ;;
    esac
    if [ "${DIRECTNFS_TEST_SPACE:-own}" = own ] && unshare -n -m -p -f --mount-proc true 2>"$T/unshare"; then
        space=(unshare -n -m -p -f --mount-proc --kill-child=KILL)
    fi
    # After the second time limit unshare is killed, and with it all processes of the script.
    HARNESS_T=$T HARNESS_SPACE=${#space[@]} "$limit" -k 10 "$time_limit" "${space[@]}" bash "$(realpath "$0")" "$@" &
    script=$!
    trap 'kill -TERM $script' INT TERM HUP
    wait "$script"
    status=$?
    while kill -0 "$script" 2>/dev/null; do wait "$script"; status=$?; done
    if [ "$status" -ge 124 ]; then
        echo "not ok ${0##*/}: ended by a signal or after its time limit of $time_limit s (status $status)"
        harness_logs
    fi
    if [ "${DIRECTNFS_TEST_KEEP:-0}" = 1 ]; then echo "# kept: $T"; else rm -rf "$T"; fi
    [ -z "${DIRECTNFS_TEST_DISK:-}" ] || rm -rf "$DIRECTNFS_TEST_DISK/${T##*/}"
    exit "$status"
}

# What nfs-ganesha says at every start.
harness_boilerplate='DBUS|dbus|krb5|:THREAD :EVENT|keytab|principal nfs|RADOS|:(MAIN|NFS STARTUP|INODE LRU|NFS CB) :EVENT|skipping GRACE'
# The last lines of every log, for whoever reads why a check failed.
harness_logs() {
    local log
    for log in "$T"/log/*; do
        [ -s "$log" ] || continue
        echo "# ---- ${log##*/}"
        grep -vE "$harness_boilerplate" "$log" | tail -n "${1:-15}" | cut -c1-300 | sed 's/^/# /'
    done
}

# ---- results -----------------------------------------------------------------------------------------------------

harness_failed=0

ok() { echo "ok ${0##*/}: $*"; }
# not_ok_of FILE NAME REASON...: what the command printed (FILE) comes before the logs: of a long report the end is cut off.
not_ok_of() {
    local out=$1 name=$2
    shift 2
    echo "not ok ${0##*/}: $name: $*"
    # The reason may stand far from the end.
    grep -E -B 2 -A 8 'Failure!|Sanitizer: |runtime error: ' "$out" | head -n 40 | cut -c1-300 | sed 's/^/# /'
    tail -n 15 "$out" | cut -c1-300 | sed 's/^/# /'
    [ "$harness_failed" != 0 ] || harness_logs
    harness_failed=1
}
not_ok() { not_ok_of /dev/null "$@"; }
skip() {
    local name=$1
    shift
    echo "skip ${0##*/}: $name: $*"
}
note() { echo "# $*"; }

# check NAME COMMAND...: the command must succeed. Its output goes to $T/out, and is shown if it fails.
check() {
    local name=$1 status
    shift
    "$@" >"$T/out" 2>&1
    status=$?
    if [ "$status" = 0 ]; then
        ok "$name"
    else
        not_ok_of "$T/out" "$name" "status $status of: $*"
    fi
    return "$status"
}

# fails NAME COMMAND...: the command must fail, but not by a signal or a time limit.
fails() {
    local name=$1 status
    shift
    "$@" >"$T/out" 2>&1
    status=$?
    if [ "$status" -gt 0 ] && [ "$status" -lt 124 ]; then
        ok "$name"
        return 0
    fi
    not_ok "$name" "status $status, expected a failure, of: $*"
    return 1
}

# said NAME PATTERN: the last check or fails printed a line that matches the extended regular expression.
said() {
    if grep -qE -- "$2" "$T/out"; then
        ok "$1"
    else
        not_ok "$1" "no line matches '$2': $(tail -n 2 "$T/out" | cut -c1-300 | tr '\n' '|')"
    fi
}

# says NAME STATUS PATTERN COMMAND...: the command ends with this status, and a line of what it prints (standard
# error included) matches the extended regular expression; an empty one matches also no output.
says() {
    local name=$1 expected=$2 pattern=$3 status
    shift 3
    "$limit" 60 "$@" >"$T/said" 2>&1
    status=$?
    if [ "$status" != "$expected" ]; then
        not_ok "$name" "status $status, expected $expected, of: $*"
    elif [ -n "$pattern" ] && ! grep -qE -- "$pattern" "$T/said"; then
        not_ok "$name" "no line matches '$pattern'"
    else
        ok "$name"
        return 0
    fi
    head -n 15 "$T/said" | cut -c1-200 | sed 's/^/# /'
    return 1
}
# also NAME PATTERN, never NAME PATTERN: about the output of the last `says`
also() { if grep -qE -- "$2" "$T/said"; then ok "$1"; else not_ok "$1" "no line matches '$2'"; fi; }
never() { if grep -qE -- "$2" "$T/said"; then not_ok "$1" "a line matches '$2'"; else ok "$1"; fi; }

# equal NAME GOT EXPECTED
equal() {
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got '$2', expected '$3'"; fi
    [ "$2" = "$3" ]
}

# at_least NAME GOT LIMIT, at_most NAME GOT LIMIT: whole numbers
at_least() { if [ "$2" -ge "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "got $2, expected at least $3"; fi; }
at_most() { if [ "$2" -le "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "got $2, expected at most $3"; fi; }

# log_has NAME PATTERN: the library said a line on its log that matches the extended regular expression.
log_has() {
    is_plain && { skip "$1" "runs without the library"; return; }
    if grep -qE -- "$2" "$DIRECTNFS_LOG"; then ok "$1"; else not_ok "$1" "no line in the log matches '$2'"; fi
}
log_clear() { : >"$DIRECTNFS_LOG"; }

# ---- processes ---------------------------------------------------------------------------------------------------

# What this script started in the background, to be ended in reverse order: "pid start-time".
harness_started=()

process_start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
process_remember() { harness_started+=("$1 $(process_start_time "$1")"); }
# Ends a remembered process: process_end PID [SIGNAL]. A number that was reused meanwhile is left alone.
process_end() {
    local entry is="$1 $(process_start_time "$1")"
    for entry in "${harness_started[@]}"; do
        if [ "$entry" = "$is" ]; then
            kill -"${2:-KILL}" "$1" 2>/dev/null
            wait "$1" 2>/dev/null
        fi
    done
}

harness_cleanup_commands=()
# at_end COMMAND: evaluated when the script ends, last one first.
at_end() { harness_cleanup_commands=("$1" "${harness_cleanup_commands[@]}"); }

harness_end() {
    local status=$? command entry
    trap '' INT TERM HUP
    for command in "${harness_cleanup_commands[@]}"; do eval "$command" >>"$T/log/cleanup" 2>&1; done
    for entry in "${harness_started[@]}"; do process_end "${entry%% *}"; done
    # A script that ended early (an unset variable, a syntax error) has not passed.
    [ "$status" = 0 ] || [ "$harness_failed" = 1 ] || echo "not ok ${0##*/}: ended with status $status"
    [ "$status" != 0 ] || status=$harness_failed
    exit "$status"
}

# unit_programs DIR: fills the array `programs` with the unit tests that were built there
unit_programs() {
    local program
    programs=()
    for program in "$1"/test/unit/test_*; do
        [ ! -f "$program" ] || [ ! -x "$program" ] || programs+=("$program")
    done
    [ ${#programs[@]} -gt 0 ] || not_ok "unit tests" "none in $1/test/unit; run make unit"
}

# at_once FUNCTION ITEM...: calls the function for each item, for as many at a time as there are processors. Each has
# a $T of its own; what one prints comes together.
at_once() {
    local function=$1 item running=0 failed=0
    shift
    for item; do
        if [ "$running" -ge "$(nproc)" ]; then
            wait -n || failed=1
            running=$((running - 1))
        fi
        (
            together=$T/together T=$(mktemp -d "$T/j.XXXX")
            "$function" "$item" >"$T/lines" 2>&1
            flock "$together" cat "$T/lines"
            rm -rf "$T"
            exit "$harness_failed"
        ) &
        running=$((running + 1))
    done
    while [ "$running" -gt 0 ]; do
        wait -n || failed=1
        running=$((running - 1))
    done
    [ $failed = 0 ] || harness_failed=1
}

# wait_for SECONDS COMMAND...: until the command succeeds. The seconds are enough on a machine that has time: it may take
# twelve times as long.
wait_for() {
    local end=$((SECONDS + 12 * $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        [ -n "$(ss -Htuan "sport = :$port")" ] || { echo "$port"; return; }
    done
}

# mount_tmpfs DIR SIZE: a file system of its own, unmounted at the end
mount_tmpfs() {
    mkdir -p "$1" && mount -t tmpfs -o "size=$2,mode=755" tmpfs "$1" && at_end "umount -l '$1'"
}

# ---- the server --------------------------------------------------------------------------------------------------

nfs_port=0
mount_port=0
ganesha_pid=0
ganesha_exports=()
ganesha_epoch=0
ganesha_protocol=3    # the versions of NFS it speaks: 3, 4 or "3, 4"
ganesha_grace=0       # seconds after a start in which clients of version 4 reclaim their state
ganesha_lease=20      # seconds of their lease
ganesha_minor=1,2     # minor versions of version 4
ganesha_options=      # others of its NFSV4 block
ganesha_blocks=       # further blocks
server_space=()       # words that start a program where the server is: nothing, or another network namespace
server_bind=127.0.0.1 # the address it listens on

rpcbind_start() {
    ! "${server_space[@]}" bash -c 'exec 3<>/dev/tcp/127.0.0.1/111' 2>/dev/null || return 0
    mkdir -p /run/rpcbind
    "${server_space[@]}" rpcbind -w -f >>"$T/log/rpcbind" 2>&1 &
    process_remember $!
    wait_for 10 "${server_space[@]}" bash -c 'exec 3<>/dev/tcp/127.0.0.1/111'
}

# ganesha_export DIR [OPTION;...]: one more exported directory, before ganesha_start. Options are ganesha's, of an
# EXPORT block, and win over those here. Attributes expire at once, since the kernel changes the exported directory
# behind the server's back; for the same reason it keeps no directory entries.
ganesha_export() {
    local id=$((${#ganesha_exports[@]} + 1)) options=${2:-}
    case $options in *Access_Type*) ;; *) options+=" Access_Type = RW;" ;; esac
    case $options in *Squash*) ;; *) options+=" Squash = No_Root_Squash;" ;; esac
    ganesha_exports+=("EXPORT { Export_Id = $id; Path = $1; Pseudo = /e$id; Protocols = $ganesha_protocol; Transports = TCP;
    Attr_Expiration_Time = 0; MaxRead = 1048576; MaxWrite = 1048576; $options FSAL { Name = VFS; } }")
}

# ganesha_sessions [GRACE]: before ganesha_export and ganesha_start. The server speaks NFSv4.1 and 4.2 and nothing else,
# as those of clouds do: there is neither a port mapper nor MOUNT, and the n-th export is the directory /eN. The time to
# reclaim after a start is GRACE seconds.
ganesha_sessions() {
    ganesha_protocol=4
    ganesha_grace=${1:-0}
}

ganesha_write_conf() {
    local flusher= versions="MNT_Port = $mount_port; Protocols = $ganesha_protocol;" grace="Graceless = true;"
    [ "$ganesha_protocol" != 4 ] || versions="Protocols = 4; Enable_UDP = false;"
    if [ "$ganesha_protocol" != 3 ]; then
        [ "$ganesha_grace" = 0 ] || grace="Grace_Period = $ganesha_grace;"
        grace+=" Minor_Versions = $ganesha_minor; RecoveryBackend = fs; Lease_Lifetime = $ganesha_lease; $ganesha_options"
    fi
    # Newer versions do not start without CAP_SYS_RESOURCE, unless they are told that it may be missing.
    ! grep -qs allow_set_io_flusher_fail "$(command -v ganesha.nfsd)" || flusher="Allow_Set_Io_Flusher_Fail = true;"
    cat >"$T/ganesha.conf" <<END
NFS_CORE_PARAM { NFS_Port = $nfs_port; $versions Enable_NLM = false;
    Enable_RQUOTA = false; Bind_addr = $server_bind; $flusher }
NFSV4 { $grace }
MDCACHE { Dir_Chunk = 0; }
$ganesha_blocks
END
    printf '%s\n' "${ganesha_exports[@]}" >>"$T/ganesha.conf"
}

ganesha_initialized() { grep -q 'NFS SERVER INITIALIZED' "$T/log/ganesha.start"; }

ganesha_run() {
    # The write verifier is the start time in whole seconds: a restart within one second would not be seen.
    while [ "$ganesha_epoch" = "$(date +%s)" ]; do sleep 0.05; done
    ganesha_epoch=$(date +%s)
    [ ! -e "$T/log/ganesha.start" ] || cat "$T/log/ganesha.start" >>"$T/log/ganesha.before"
    : >"$T/log/ganesha.start"
    "${server_space[@]}" ganesha.nfsd -f "$T/ganesha.conf" -L "$T/log/ganesha.start" -p "$T/ganesha.pid" -F >>"$T/log/ganesha.out" 2>&1 &
    ganesha_pid=$!
    disown "$ganesha_pid" # no "Killed" message of the shell
    process_remember "$ganesha_pid"
    wait_for 30 eval 'ganesha_initialized || ! kill -0 "$ganesha_pid"' && ganesha_initialized
}

# Starts the server on free ports. Exports $mnt unless ganesha_export was called. Ends the script if it does not come up.
ganesha_start() {
    [ ${#ganesha_exports[@]} -gt 0 ] || ganesha_export "$mnt"
    [ "$nfs_port" != 0 ] || nfs_port=$(free_port)
    [ "$mount_port" != 0 ] || mount_port=$(free_port)
    ganesha_write_conf
    mkdir -p /run/ganesha /var/lib/nfs/ganesha
    if { [ "$ganesha_protocol" != 4 ] && ! rpcbind_start; } || ! ganesha_run; then
        not_ok "server" "nfs-ganesha did not start"
        exit 1
    fi
}
ganesha_kill() {
    process_end "$ganesha_pid" KILL
    while kill -0 "$ganesha_pid" 2>/dev/null; do sleep 0.01; done
}
ganesha_restart() {
    ! kill -0 "$ganesha_pid" 2>/dev/null || ganesha_kill
    if ! ganesha_run; then
        not_ok "server" "nfs-ganesha did not start again"
        exit 1
    fi
}
# ganesha_renumber: from the next start on all file handles are new, and those that were given are stale.
ganesha_renumber() {
    local i
    for i in "${!ganesha_exports[@]}"; do
        [[ ${ganesha_exports[i]} =~ Export_Id\ =\ ([0-9]+) ]]
        ganesha_exports[i]=${ganesha_exports[i]/"${BASH_REMATCH[0]}"/Export_Id = $((BASH_REMATCH[1] + 100))}
    done
    ganesha_write_conf
}

# ---- the library -------------------------------------------------------------------------------------------------

is_plain() { [ "${DIRECTNFS_TEST_PLAIN:-0}" = 1 ]; }

# nfstab_write [TEXT]: the configuration of under_preload. Without an argument: $mnt on the server that runs.
nfstab_write() {
    if [ $# -gt 0 ]; then
        printf '%s\n' "$1" >"$nfstab"
    else
        cat >"$nfstab" <<END
server: testserver
path: 127.0.0.1
nfsport: $nfs_port  mntport: $mount_port
export: $mnt  mount: $mnt
END
    fi
}

# as_user COMMAND...: as $run_user, who owns the run directory (root unless run_as was called)
run_user=
as_user() {
    if [ -n "$run_user" ]; then
        setpriv --reuid="$run_user" --regid="$(id -g "$run_user")" --init-groups "$@"
    else
        "$@"
    fi
}
# run_as USER: under_preload and the counters work as this user from now on, in a run directory of its own
run_as() {
    run_user=$1
    export DIRECTNFS_RUN=$T/run.$1
    mkdir -p "$DIRECTNFS_RUN"
    chmod 700 "$DIRECTNFS_RUN"
    chown "$1" "$DIRECTNFS_RUN" "$mnt" "$plain_dir" "$T/log" "$DIRECTNFS_LOG"
}
# run_fresh: a run directory that nobody has used; the counters begin at 0
run_fresh() {
    harness_runs=$((${harness_runs:-0} + 1))
    export DIRECTNFS_RUN=$T/run$harness_runs
    mkdir -p "$DIRECTNFS_RUN"
    chmod 700 "$DIRECTNFS_RUN"
    [ -z "$run_user" ] || chown "$run_user" "$DIRECTNFS_RUN"
}

# preload_words: fills the array `preload` with the words that start a program under the library (none when plain)
preload_words() {
    preload=()
    is_plain || preload=("$directnfs" run -t "$nfstab" --)
}
# under_preload COMMAND...: killed after $command_limit seconds (60), so that a hang is a failure and not a wait
under_preload() {
    local preload
    preload_words
    as_user "$limit" "${command_limit:-60}" "${preload[@]}" "$@"
}

# The statistics of all processes of the run directory, those that run and those that ended, as JSON values.
statistics() {
    as_user "$directnfs" stat "$1" --json
    as_user "$directnfs" stat "$1" --last --json
}
# counter NAME: e.g. nfs_read, nfs_writebytes, summed over all processes, those that ended included.
counter() {
    if is_plain; then echo 0; return; fi
    as_user "$directnfs" stat stats --sum --json 2>>"$T/log/stat" | jq -n --arg key "$1" 'input[0][$key] // 0' 2>>"$T/log/stat" || echo 0
}

# engine_at_least NAME COUNTER BEFORE MINIMUM: the counter grew by the minimum or more since it was BEFORE
engine_at_least() {
    if is_plain; then skip "$1" "runs without the library"; return; fi
    at_least "$1" "$(($(counter "$2") - $3))" "$4"
}
# state_has NAME FILE PATTERN: the view `files` shows the file with a state that matches, e.g. "kernel: mmap"
state_has() {
    local states
    if is_plain; then skip "$1" "runs without the library"; return; fi
    states=$(statistics files 2>>"$T/log/stat" |
        jq -r --arg name "$2" '.[] | select(.filename == $name) | .state' 2>>"$T/log/stat" | sort -u | tr '\n' '|')
    if grep -qE -- "$3" <<<"$states"; then ok "$1"; else not_ok "$1" "the state of $2 is '$states', expected '$3'"; fi
}

# on_kernel NAME PATTERN [DIR]: reading and writing in DIR works, the kernel does it, in bounded time, and one line
# of the log that matches PATTERN says why. $data: a file with what is read and written.
on_kernel() {
    local name=$1 pattern=$2 dir=${3:-$mnt}
    cp "$data" "$dir/f"
    run_fresh
    log_clear
    command_limit=40 check "$name: programs read" under_preload bash -c "cat '$dir/f' | cmp - '$data'"
    command_limit=40 check "$name: programs write" under_preload cp "$data" "$dir/g"
    check "$name: the bytes are there" cmp "$data" "$dir/g"
    is_plain || equal "$name: the kernel did it" "$(($(counter nfs_readbytes) + $(counter nfs_writebytes)))" 0
    log_has "$name: the log says why" "$pattern"
    rm -f "$dir/g"
}

# engine_none NAME: no call of the engine was counted in this run directory
engine_none() {
    local name total=0
    for name in nfs_mount nfs_lookup nfs_getattr nfs_read nfs_write; do total=$((total + $(counter $name))); done
    equal "$1" "$total" 0
}

# need_build: copies the command and the library to where every user may read them, or ends the script
need_build() {
    if [ -n "${DIRECTNFS_TEST_INSTALLED:-}" ]; then
        directnfs=$DIRECTNFS_TEST_INSTALLED/bin/directnfs
        library=$("$directnfs" run sh -c 'echo "$LD_PRELOAD"') || exit 1
        return
    fi
    directnfs=$T/bin/directnfs
    library=$T/bin/libdirectnfs.so
    is_plain && return
    if ! cp "$BUILD/directnfs" "$BUILD/libdirectnfs.so" "$T/bin" 2>/dev/null; then
        not_ok "build" "no libdirectnfs.so and directnfs in $BUILD; run make first"
        exit 1
    fi
    chmod 755 "$directnfs" "$library"
}

# ---- the second start --------------------------------------------------------------------------------------------

# conf_write [TUNABLES]: what directnfs.conf has from now on.
conf_write() {
    local behind=${DIRECTNFS_TEST_BEHIND:+"write_behind_max = $((DIRECTNFS_TEST_BEHIND << 20));"}
    [[ ${1:-} != *write_behind_max* ]] || behind=
    # After kill -9 what was being written is held for the default of 3 s: too long for a test.
    echo "failover_hold = 0.3; $behind ${1:-}" >"$DIRECTNFS_CONF"
}

second_address=198.18.0.1
harness_inside() {
    T=$HARNESS_T limit=$HARNESS_T/bin/limit
    if [ "$HARNESS_SPACE" != 0 ]; then
        # A port mapper has its lock and its socket in /run, the server what it remembers in /var/lib/nfs.
        mkdir -p /var/lib/nfs
        mount -t tmpfs tmpfs /run
        mount -t tmpfs tmpfs /var/lib/nfs
        ip link set lo up
        # A second address: resolvers that ask for configured address families do not count 127.0.0.1.
        ip address add "$second_address/32" dev lo
    fi
    mkdir -p "$T/log" "$T/p" "$T/run"
    chmod 700 "$T/run"
    mnt=$T/m
    if [ -n "${DIRECTNFS_TEST_DISK:-}" ]; then
        mnt=$DIRECTNFS_TEST_DISK/${T##*/}/m
    fi
    mkdir -p "$mnt"
    plain_dir=$T/p
    nfstab=$T/nfstab
    : >"$nfstab"
    export DIRECTNFS_RUN=$T/run DIRECTNFS_LOG=$T/log/directnfs DIRECTNFS_CONF=$T/directnfs.conf
    unset DIRECTNFS_NFSTAB DIRECTNFS_HOME DIRECTNFS_DISABLE DIRECTNFS_LOG_LEVEL LD_PRELOAD
    : >"$DIRECTNFS_LOG"
    chmod 666 "$DIRECTNFS_LOG"
    conf_write
    need_build
    cd "$T" || exit 1 # a directory that every user may enter
}

if [ -z "${HARNESS_T:-}" ]; then
    harness_outside "$@"
fi
trap harness_end EXIT
trap 'exit 143' INT TERM HUP
harness_inside
