# shellcheck shell=bash
# Functions of the model's guest: server, networks and mounts, and what is measured how. A phase calls them.

export_dir=/srv/nfs mount_dir=/mnt/nfs
client=(nsenter --net=/run/netns/client)

# serve: the kernel's NFS server, which exports $export_dir, a tmpfs
serve() {
    mkdir -p /run/rpcbind /run/rpc_pipefs /var/lib/nfs/{sm,sm.bak,v4recovery}
    modprobe -a nfsd nfs nfsv3 nfsv4 veth sch_netem || return
    mount -t tmpfs -o size=2g,mode=1777 tmpfs $export_dir && mount -t nfsd nfsd /proc/fs/nfsd || return
    mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs || return
    : >/var/lib/nfs/etab
    : >/var/lib/nfs/rmtab
    rpcbind -w || return
    exportfs -i -o rw,async,no_root_squash,insecure,no_subtree_check,fsid=0 "*:$export_dir" && rpc.mountd -p 20048 || return
    # The largest transfer otherwise depends on the memory.
    echo 1048576 >/proc/fs/nfsd/max_block_size
    rpc.nfsd -G 10 -L 10 8 && echo Y >/proc/fs/nfsd/v4_end_grace
}

# networks: $paths pairs of devices between the server and the namespace `client`, each a round trip of $delay ms long
networks() {
    local i half
    half=$(awk -v ms="$delay" 'BEGIN { printf "%.4f", ms / 2 }')ms
    ip netns add client && "${client[@]}" ip link set lo up || return
    for ((i = 1; i <= paths; i++)); do
        ip link add "s$i" type veth peer name "c$i" netns client && ip address add "10.9.$i.1/24" dev "s$i" && ip link set "s$i" up || return
        "${client[@]}" ip address add "10.9.$i.2/24" dev "c$i" && "${client[@]}" ip link set "c$i" up || return
        tc qdisc add dev "s$i" root netem delay "$half" limit 20000 || return
        "${client[@]}" tc qdisc add dev "c$i" root netem delay "$half" limit 20000 || return
    done
}

# attach: the kernel's mount, and the nfstab that says how the library finds the server
attach() {
    local i source=10.9.1.1:$export_dir options=vers=$nfs,proto=tcp,hard,nconnect=4
    if [ "$nfs" = 3 ]; then options+=,nolock,mountproto=tcp,mountport=20048; else source=10.9.1.1:/; fi
    "${client[@]}" mount -t nfs -o "$options" "$source" $mount_dir || return
    {
        echo "server: model"
        for ((i = 1; i <= paths; i++)); do echo "path: 10.9.$i.1 local: 10.9.$i.2"; done
        printf 'export: %s mount: %s\n' "${source#*:}" "$mount_dir"
    } >/model/nfstab
    export DIRECTNFS_NFSTAB=/model/nfstab DIRECTNFS_CONF=/model/conf DIRECTNFS_LOG=/tmp/log
}

# with CLIENT COMMAND...: a command on the client's host, by one of the two clients, `kernel` or `ours`. Only the command itself
# has the library, not what starts it. as USER CLIENT COMMAND...: the same as somebody else.
with() {
    local who=$1 library=()
    shift
    [ "$who" = kernel ] || library=(LD_PRELOAD=/model/bin/libdirectnfs.so)
    "${client[@]}" env "${library[@]}" "$@"
}
as() {
    local user=$1 who=$2 library=()
    shift 2
    [ "$who" = kernel ] || library=(LD_PRELOAD=/model/bin/libdirectnfs.so)
    "${client[@]}" setpriv --reuid="$user" --regid="$user" --init-groups env HOME=/tmp DIRECTNFS_LOG="/tmp/log.$user" "${library[@]}" "$@"
}

# settled: what clients do by themselves is over: written data is at the server, connections are quiet
settled() {
    sync
    "${client[@]}" /model/bin/directnfs flush >/dev/null 2>&1
    sleep 1
}

# cold [NAME...]: the client's kernel forgets what it knows of files. So does the library's cache, if it has one, of the files
# NAME, or in it, at the server: they get other times, as by another host that wrote them.
cold() {
    settled
    [ $# = 0 ] || find "$@" -type f -exec touch -m {} +
    echo 3 >/proc/sys/vm/drop_caches
}

# have PROGRAM PACKAGE: is it in the image? If not, this phase is left out
have() {
    command -v "$1" >/dev/null && return
    echo "left out: phase $phase: no $1 (package $2)"
    return 1
}

# say CLIENT NAME FIGURE: a result; without a figure, or `failed`, it failed
failed=
say() {
    [ "${3:-failed}" != failed ] || failed=1
    echo "figure $1 $2 ${3:-failed}"
}

# asked: interrupts that came from outside the processor: answers to what the guest asked of the machine
asked() { awk '$1 ~ /^[0-9]+:$/ && !/ timer/ { n += $2 } END { print n + 0 }' /proc/interrupts; }

# undisturbed COMMAND...: runs it, and says if something answered from outside meanwhile. It took $took microseconds.
undisturbed() {
    local before status
    sleep 0.1 # the last line that was printed is on its way
    before=$(asked)
    took=${EPOCHREALTIME/./}
    "$@"
    status=$?
    took=$((${EPOCHREALTIME/./} - took))
    [ "$(asked)" = "$before" ] || echo "disturbed: phase $phase"
    return $status
}

# profiled CLIENT NAME COMMAND...: with --perf, what the processor executed meanwhile is printed
profiled() {
    local name=$2.$1 status
    shift 2
    [ -n "$perf" ] || { undisturbed "$@"; return; }
    { declare -f; declare -p | grep -vE '^declare -[a-z-]*r|BASH|FUNCNAME|DIRSTACK|PIPESTATUS|GROUPS'; } >/tmp/functions
    perf record -q -a -e cpu-clock -F 5000 -o /tmp/perf -- bash -c '. /tmp/functions; "$@"' bash "$@"
    status=$?
    {
        perf report -i /tmp/perf --no-children --sort comm --stdio
        perf report -i /tmp/perf --no-children --sort comm,dso,sym --stdio | head -n 90
    } 2>/dev/null | grep -vE '^(#|$)' | sed "s/^/profile $name /" >&4
    return $status
}

plain() { undisturbed "${@:3}"; }

# timed CLIENT NAME COMMAND...: the result NAME_s
timed() {
    local who=$1 name=$2
    shift 2
    took=0
    if ! profiled "$who" "$name" "$@" >/tmp/last 2>&1; then
        say "$who" "${name}_s" failed
        tail -n 5 /tmp/last
        return 1
    fi
    grep -a '^disturbed' /tmp/last
    say "$who" "${name}_s" "$(awk -v us="$took" 'BEGIN { printf "%.4f", us / 1e6 }')"
}

# groups: makes two groups of processes: `program`, which is measured alone beside all of the client, and `server`, beside the
# threads of nfsd. group NAME COMMAND...: a command in it. used NAME: instructions of it and of all that it started, so far.
groups() { mount -t cgroup2 cgroup2 /sys/fs/cgroup && mkdir /sys/fs/cgroup/{program,server}; }
group() {
    local name=$1
    shift
    (echo "$BASHPID" >"/sys/fs/cgroup/$name/cgroup.procs" && "$@")
}
used() { [ ! -e "/sys/fs/cgroup/$1" ] || awk '$1 == "usage_usec" { printf "%.0f", $2 * 1000 }' "/sys/fs/cgroup/$1/cpu.stat"; }

# executed: two numbers: instructions so far, but for the idle loop and the server's threads; those of the group `program`.
# An instruction takes 1 ns, so they are time in which the processor was not idle.
executed() {
    local server
    server=$(cat $(ps -C nfsd -o pid= | sed 's,^ *\(.*\)$,/proc/\1/schedstat,') | awk '{ n += $1 } END { printf "%.0f", n }')
    awk -v server="$server" -v more="$(used server)" -v program="$(used program)" '$1 == "now" && $2 == "at" { now = $3 }
        $1 ~ /^\.(idle|iowait)_sleeptime/ { idle += $3 }
        END { printf "%.0f %.0f\n", now - idle - server - more, program }' /proc/timer_list
}

# per_operation CLIENT NAME FEW MANY COMMAND...: the result NAME_insn, instructions per operation. The command runs twice,
# with FEW and with MANY operations in place of the word COUNT: the difference has no start and no end in it. With groups
# $insn has the result, and $program_insn that of the program alone.
per_operation() {
    local who=$1 name=$2 few=$3 many=$4 what count before after figures=() alone=()
    shift 4
    for count in "$few" "$few" "$many"; do # the first one warms up
        settled
        before=$(executed)
        if [ "$count" = "$many" ]; then what=profiled; else what=plain; fi
        $what "$who" "$name" "${@/#COUNT/$count}" >/tmp/last 2>&1 || { say "$who" "${name}_insn" failed; tail -n 3 /tmp/last; return 1; }
        after=$(executed)
        grep -a '^disturbed' /tmp/last
        figures=("${figures[1]-}" $((${after% *} - ${before% *})))
        alone=("${alone[1]-}" $((${after#* } - ${before#* })))
    done
    insn=$(((figures[1] - figures[0]) / (many - few)))
    program_insn=$(((alone[1] - alone[0]) / (many - few)))
    say "$who" "${name}_insn" $insn
}

# protected KIND PLAIN: instructions for 8 KiB by the library, protected by KIND: of all of the client, and of the program alone.
# Beside them stands what was measured of PLAIN before, and what the phase's function `alone KIND read|write` prints: what
# has to be added to that.
declare -A beside=()
protected() {
    local before
    before=$(served)
    each() { # KIND PLAIN NAME MANY WORD...
        local name=${phase}_$3_$1 same=${phase}_$3_$2 of more=''
        per_operation ours "$name" 250 "$4" group program with ours /model/bin/oploop "${@:5}" $mount_dir/file || return
        say ours "${name}_program_insn" $program_insn
        [ "$1" != "$2" ] || { beside[$same]=$insn beside[${same}_program]=$program_insn && return; }
        more=$(alone "$1" "${3%%_*}")
        for of in '' _program; do
            say "$2" "$name${of}_insn" "${beside[$same$of]-}"
            say alone "$name${of}_insn" "$more"
        done
    }
    each "$@" read_8k 4250 read COUNT
    each "$@" read_8k_direct 2250 --direct read COUNT
    each "$@" write_8k 4250 write COUNT
    each "$@" write_8k_direct 2250 --direct write COUNT
    [ "$(served)" != "$before" ] || { failed=1; echo "not served: phase $phase: $1: the library made no call"; }
}

# served: has the library done the work of this phase? What it has done so far is in $served_before.
served() {
    "${client[@]}" /model/bin/directnfs stat stats --sum --json 2>/dev/null |
        awk '$1 ~ /^"nfs_(read|write|getattr|lookup|access)":/ { n += $2 } END { print n + 0 }'
}
