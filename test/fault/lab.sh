# shellcheck shell=bash
#
# The fault laboratory, for scripts that sourced test/lib/harness.sh: a server that can lose power or nfs-ganesha, a
# proxy in front of it with one address for each path, and the torture program (test/fault/*.c).
#
# Variables: lab_paths   paths of the proxy (lab_start)
#            tunables    further lines of directnfs.conf for the next lab_start
#            lab_ipv6    if not empty, the last path is of IPv6, where this machine has it
#            lab_protection  how calls are protected: tls, tls-direct (a certificate of ours, too), krb5, krb5i or krb5p
#                            (nfs-ganesha only); empty: not at all
#            lab_keytab  if not empty, tickets come from a keytab that everybody can read, else from a cache of root's.
#                        Without it no process becomes another user, who could make no context for files of root
#            unsafe      test-only switches for the next lab_torture, see src/sys/test_switch.h

# Where the faults are done. With TLS the proxy is its end before the server: between client and proxy bytes are lost,
# late, split, and changed (tamper); what needs to see records is done behind it, so all kinds of faults are there. With
# Kerberos there is no such place. Records and the numbers in their heads are seen, so calls are lost, held, doubled and
# late; what replies say cannot be changed but for the worse (tamper). So there are no replies of the proxy's own (full,
# read-only, jukebox), no other verifiers (verifier, damage), and no losses of power, which take a server that we make.
# With plain krb5 nothing is changed: it does not protect what calls and replies carry. And without a keytab no agent sees
# to what a process left that was killed: it may be set aside, which a sync of others tells, as with the kind kill-both.

. "$top/test/lib/kerberos.sh"
proxy_socket=$T/proxy power_socket=$T/power
lab_paths=1
lab_server=none
lab_name=lab      # of the server
lab_version=nfsv3 # or nfsv4.1: of nfs-ganesha under Kerberos
lab_realm=        # not empty: there is one
tunables=
unsafe=
lab_ipv6=
lab_protection=
lab_keytab=
lab_seed=1
lab_server_of_hosts=no # the paths lead to hosts with networks of their own
lab_networks=()        # the words that start a program there

lab_hold=500 # ms, failover_hold: no library survives what comes later
# Dead paths are found in half a second, held writes wait for as long, and early COMMITs happen.
lab_tunables() {
    cat >"$DIRECTNFS_CONF" <<END
retransmit_timeout = 1;
path_timeout = 0.5;
failover_hold = $(printf '%d.%03d' $((lab_hold / 1000)) $((lab_hold % 1000)));
reconnect_max = 1;
uncommitted_file_max = 1048576;
write_behind_max = 4194304;
$tunables
END
}

# The build whose protections can be switched off; made when it is asked for first.
lab_switches() {
    [ ! -x "$T/switches/directnfs" ] || return 0
    # The command has them too, which is the agent. They need not be fast, and without optimisation the library must work too.
    check "the build with test-only switches" make -C "$top" -s TEST_SWITCHES=1 BUILD="$BUILD" CFLAGS="-O0 -g1" \
        all || return 1
    mkdir -p "$T/switches"
    cp "$BUILD/switches/directnfs" "$BUILD/switches/libdirectnfs.so" "$T/switches"
}

# lab_program NAME COMMAND...: starts a program of this directory that says "ready". It comes before all others, where that
# is permitted: on a machine that is busy a network and a server are not slower than the clients expect.
lab_program() {
    local name=$1
    shift
    "$BUILD/test/fault/$name" "$@" >"$T/log/$name" 2>&1 &
    renice -n -20 -p $! >>"$T/log/renice" 2>&1
    process_remember $!
    disown $!
    if ! wait_for 10 grep -q '^ready' "$T/log/$name"; then
        not_ok "$name" "did not start: $(tail -n 1 "$T/log/$name")"
        exit 1
    fi
}

# lab_start power|sessions|ganesha PATHS [SEED]: a server and its paths, and the nfstab. What ran before is ended.
# `sessions`: the one that can lose power, by NFSv4.1.
lab_start() {
    local path lines= addresses= export=$mnt version= name=lab words=()
    lab_stop
    lab_server=$1 lab_paths=$2 lab_seed=${3:-1}
    ! is_plain || { lab_plain_start; return; }
    lab_tunables
    run_fresh
    rm -f "$mnt"/*
    if [ "$lab_server" = sessions ]; then
        export=/ version="nfs_version: nfsv4.1"
    fi
    if lab_has_power; then
        nfs_port=$(free_port) mount_port=$(free_port)
        lab_program powerserver --dir "$mnt" --port "$nfs_port" --mount-port "$mount_port" --control "$power_socket" \
            --seed "${3:-1}"
        lab_power_pid=$!
    else
        ganesha_exports=() ganesha_protocol=3
        if lab_has_kerberos; then
            lab_kerberos_start
            name=testserver version="security_default: $lab_protection"
            [ -z "$lab_keytab" ] || version+=" krb5_keytab: $T/root.keytab krb5_principal: root"
            [ "$lab_version" = nfsv3 ] || export=/e1 version+=" nfs_version: $lab_version"
            ganesha_protocol="3, 4" # without NFSv4 it knows no names of users
            ganesha_export "$mnt" "SecType = $lab_protection;"
        fi
        ganesha_start
    fi
    case $lab_protection in
    tls*)
        lab_certificates
        words=(--certificate "$T/pki/server" --key "$T/pki/server.key")
        version+=$'\n'"tls: require tls_ca: $T/pki/ca"
        [ "$lab_protection" = tls ] ||
            { words+=(--direct --authority "$T/pki/ca") version+=" tls_direct tls_cert: $T/pki/client tls_key: $T/pki/client.key"; }
        ;;
    esac
    # Ports of its own: nfs-ganesha listens on all addresses.
    local nfs=$(free_port) mount=$(free_port)
    if [ "$HARNESS_SPACE" = 0 ]; then # the address would stay
        lab_ipv6=
    elif [ -n "$lab_ipv6" ] && ! ip address replace "$(lab_address "$lab_paths")/128" dev lo 2>>"$T/log/ip"; then
        lab_ipv6=
    fi
    for ((path = 1; path <= lab_paths; path++)); do
        lines+=" --listen $(lab_address $path)"
        addresses+="path: $(lab_address $path)"$'\n'
    done
    # shellcheck disable=SC2086
    lab_program proxy $lines --nfs "127.0.0.1:$nfs_port" --mount "127.0.0.1:$mount_port" --nfs-port "$nfs" \
        --mount-port "$mount" --control "$proxy_socket" --seed "${3:-1}" --late "$lab_hold" "${words[@]}"
    lab_proxy_pid=$!
    lab_name=$name
    nfstab_write "server: $name
${addresses}nfsport: $nfs  mntport: $mount
$version
export: $export  mount: $mnt"
    sed "s/nfsport: $nfs  mntport: $mount/nfsport: $(free_port)  mntport: $(free_port)/" "$nfstab" >"$T/apart"
}
# A server that can lose power.
lab_has_kerberos() { [[ $lab_protection = krb5* ]]; }
lab_has_power() { [ "$lab_server" = power ] || [ "$lab_server" = sessions ]; }
# lab_address N: of path N
lab_address() {
    if [ "$lab_server_of_hosts" = yes ]; then echo "192.0.2.$((4 * $1 + 1))"
    elif [ -n "$lab_ipv6" ] && [ "$1" = "$lab_paths" ]; then echo fd00:1ab::1; else echo 127.0.0.$(($1 + 1)); fi
}
# An authority, and certificates of the server and of this host.
lab_certificates() {
    local name
    [ ! -d "$T/pki" ] || return 0
    mkdir "$T/pki"
    {
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$T/pki/ca.key" -out "$T/pki/ca" -days 2 \
            -subj /CN=authority
        for name in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$T/pki/$name.key" -out "$T/pki/$name.csr" \
                -subj "/CN=$name"
            openssl x509 -req -in "$T/pki/$name.csr" -CA "$T/pki/ca" -CAkey "$T/pki/ca.key" -CAcreateserial -days 2 \
                -out "$T/pki/$name" -extfile <(echo "subjectAltName=DNS:lab")
        done
        chmod 755 "$T/pki"
        chmod 644 "$T/pki"/*
    } >>"$T/log/openssl" 2>&1
}

# A KDC, which stays, and a new ticket.
lab_kerberos_start() {
    local file
    if [ -z "$lab_realm" ]; then
        kerberos_start
        kerberos_principal root
        chmod 644 "$T/root.keytab"
        # A visitor has $T as its root.
        mkdir -p "$T$T"
        for file in krb5.conf tickets root.keytab; do ln -s "/$file" "$T$T/$file"; done
        lab_realm=yes
    fi
    lab_kerberos "ticket new"
}
# lab_kerberos WHAT: what the torture program asks for. What ends a fault ends others, too.
lab_kerberos() {
    case $1 in
    "ticket short") kerberos_ticket root 2s ;;
    "ticket away") mv "$T/tickets" "$T/tickets.away" ;;
    "kdc away") # and there is no ticket for the server
        kerberos_ticket root
        kdc_end
        return
        ;;
    *) kill -0 "$kdc_pid" || kdc_run ;;&
    "ticket back") mv "$T/tickets.away" "$T/tickets" || kerberos_ticket root ;;
    "ticket new") kerberos_ticket root ;;
    esac
} >>"$T/log/asked" 2>&1

# Without a server: the kernel's files, for the torture program alone.
lab_plain_start() {
    lab_stop
    lab_server=none
    rm -f "$mnt"/*
}
lab_stop() {
    local pid
    for pid in ${lab_proxy_pid:-} ${lab_power_pid:-}; do
        process_end "$pid" TERM
        # Its socket is gone with it, and not that of the next one.
        wait_for 10 eval "! kill -0 $pid" || not_ok "a program of the laboratory" "does not end"
    done
    [ "$lab_server" != ganesha ] || ganesha_kill
    lab_proxy_pid='' lab_power_pid=''
}

# lab_proxy PATH|all COMMAND..., lab_power COMMAND...
lab_proxy() { "$BUILD/test/fault/proxy" --ask "$proxy_socket" "$@"; }
lab_power() { "$BUILD/test/fault/powerserver" --ask "$power_socket" "$@"; }
# lab_counter NAME: of the server that can lose power
lab_counter() { lab_power counters | grep -oP "\\b$1=\\K[0-9]+"; }
# sum: of the numbers on standard input
sum() { echo $(($(paste -sd+))); }
# proxy_counter NAME: the sum over all paths
proxy_counter() { lab_proxy all counters | grep -oP "\\b$1=\\K[0-9]+" | sum; }

# lab_torture OPTION...: runs the torture program against the server that was started; restarts ganesha and takes paths
# out of use when it asks for it. What it says goes to $T/torture. Its exit status.
lab_torture() {
    local words=("$directnfs" run -t "$nfstab" --) line status answers torture
    [ -z "$unsafe" ] || words=(env "DIRECTNFS_TEST_UNSAFE=$unsafe" "$T/switches/directnfs" run -t "$nfstab" --)
    local protection=${lab_protection%-direct}
    local options=(--dir "$mnt" --journal "$T/journal" --paths "$lab_paths" --protection "${protection:-none}")
    if ! is_plain && [ "$lab_server" != none ]; then
        options+=(--run "${words[*]}" --apart "${words[*]/"$nfstab"/"$T/apart"}" --proxy "$proxy_socket")
        ! lab_has_power || options+=(--power "$power_socket")
        [ "$lab_version" = nfsv3 ] && [ "$lab_server" != sessions ] || options+=(--sessions)
        [ "$lab_server" != ganesha ] || options+=(--restart)
        [ "$lab_paths" = 1 ] || options+=(--offline)
        ! lab_has_kerberos || [ -n "$lab_keytab" ] || options+=(--keep-user)
    fi
    : >"$T/torture"
    [ -p "$T/asks" ] || mkfifo "$T/asks" "$T/answers"
    exec {answers}<>"$T/answers"
    "$BUILD/test/fault/torture" "${options[@]}" "$@" <"$T/answers" >"$T/asks" 2>>"$T/log/torture" &
    torture=$! # $! is the last server's, once there was a restart
    process_remember $torture
    while read -r line; do
        case $line in
        restart) ganesha_restart ;;
        "path "*) lab_path ${line#path } ;;
        "ticket "* | "kdc "*) lab_kerberos "$line" ;;
        "agent for "*)
            if ! wait_for 2 lab_agent "${line##* }"; then
                echo "none" >&"$answers"
                continue
            fi
            ;;
        *)
            echo "$line" >>"$T/torture"
            continue
            ;;
        esac
        echo "done" >&"$answers"
    done <"$T/asks"
    wait $torture
    status=$?
    exec {answers}>&-
    cp "$T/torture" "$T/out"
    return "$status"
}

# lab_agent N: is there an agent in contact with the server, which watches N processes or more?
lab_agent() {
    "$directnfs" stat agents --json 2>>"$T/log/asked" |
        jq -e ".[0] | .state == \"alive\" and .servers >= 1 and .watched >= $1" >>"$T/log/asked" 2>&1
}
# lab_path offline|online N: as an administrator does it
lab_path() { "$directnfs" path "$1" "$lab_name" "$(lab_address "$2")" >>"$T/log/asked" 2>&1; }

# ---- two hosts ----

# lab_network N: a network namespace, whose only way leads to the address of path N
lab_network() {
    local keeper
    unshare -n sleep 36000 &
    keeper=$!
    process_remember $keeper
    disown $keeper
    wait_for 10 eval "[ \"\$(readlink /proc/$keeper/ns/net)\" != \"\$(readlink /proc/self/ns/net)\" ]"
    ip link add "host$1" type veth peer name eth0 netns $keeper &&
        ip address add "192.0.2.$((4 * $1 + 1))/30" dev "host$1" && ip link set "host$1" up &&
        nsenter -t $keeper -n sh -c "ip link set lo up && ip link set eth0 up &&
            ip address add 192.0.2.$((4 * $1 + 2))/30 dev eth0" && lab_networks[$1]="nsenter -t $keeper -n"
}
# lab_hosts power|sessions [SEED]: a server, and two hosts with a path and a run directory each; where it is permitted
# with a network each, too.
lab_hosts() {
    local n
    if [ "$HARNESS_SPACE" != 0 ] && [ ${#lab_networks[@]} = 0 ]; then
        for n in 1 2; do lab_network $n >>"$T/log/networks" 2>&1 || lab_networks=(none); done
    fi
    [ ${#lab_networks[@]} != 2 ] || lab_server_of_hosts=yes
    lab_start "$1" 2 "${2:-1}"
    for n in 1 2; do
        sed "/^path:/d; s/^server:.*/&\npath: $(lab_address $n)/" "$nfstab" >"$nfstab.$n"
        lab_runs[n]=$DIRECTNFS_RUN.$n
        mkdir -m 700 "${lab_runs[n]}"
    done
    lab_server_of_hosts=no
}
lab_runs=()
# hosts_run OPTION...: runs the program of two hosts. What it says goes to $T/torture. Its exit status.
hosts_run() {
    local n words options=() bin=$directnfs
    [ -z "$unsafe" ] || bin=$T/switches/directnfs
    for n in 1 2; do
        words="env DIRECTNFS_RUN=${lab_runs[n]} ${unsafe:+DIRECTNFS_TEST_UNSAFE=$unsafe} DIRECTNFS_LOG=$T/log/host$n"
        options+=(--host "${lab_networks[n]:-} $words $bin run -t $nfstab.$n --" --run-directory "${lab_runs[n]}")
        [ "$lab_server" != power ] || options+=(--log "$T/log/host$n")
        : >"$T/log/host$n"
    done
    "$BUILD/test/fault/hosts" --dir "$mnt" --journal "$T/hosts.journal" "${options[@]}" --proxy "$proxy_socket" \
        --power "$power_socket" "$@" >"$T/torture" 2>>"$T/log/torture"
}
# hosts_ok NAME OPTION...: nothing is lost, stuck or undone, and what was set aside was said
hosts_ok() {
    local name=$1 line aside
    shift
    if hosts_run "$@"; then
        line=$(tail -n 1 "$T/torture")
        ok "$name: $line"
        aside=$(grep -oP '\d+(?= stray files)' <<<"$line")
        at_least "$name: lines on the log of what was set aside" \
            "$(cat "$T"/log/host[12] | grep -c 'are not sent to server')" "$aside"
        [[ $lab_protection != tls* ]] || protected "$name"
    else
        not_ok "$name" "$(grep -m 1 FAILED "$T/torture" || tail -n 2 "$T/log/torture")"
        sed 's/^/# /' "$T/torture" | tail -n 20
        for n in 1 2; do tail -n 10 "$T/log/host$n" | cut -c1-200 | sed "s/^/# log of host $n: /"; done
    fi
}
# hosts_finds SWITCH SERVER END...: as lab_finds, for two hosts
hosts_finds() {
    local switch=$1 server=$2 ends
    shift 2
    ends=$(IFS=, && echo "$*")
    lab_hosts "$server" 7
    unsafe=$switch
    if hosts_run --seed 7 --rounds 300 --ends "$ends"; then
        not_ok "without the protection '$switch'" "nothing was found: $(tail -n 1 "$T/torture")"
    elif grep -qE 'FAILED.*(LOST|TORN)' "$T/torture"; then
        ok "without the protection '$switch' ends of the kinds '$ends' lose data: $(grep -m 1 FAILED "$T/torture" | cut -c1-220)"
    else
        not_ok "without the protection '$switch'" "failed for another reason: $(tail -n 2 "$T/torture" "$T/log/torture")"
    fi
    unsafe=none
    lab_hosts "$server" 7
    hosts_ok "with it they do not" --seed 7 --rounds 5 --ends "$ends"
    unsafe=
}

# protected NAME: calls were, as lab_protection says, and no byte passed in clear
protected() {
    if [[ $lab_protection = tls* ]]; then
        at_least "$1: connections in TLS" "$(proxy_counter handshakes)" 1
        equal "$1: connections with bytes in clear" "$(proxy_counter clear)" 0
    elif lab_has_kerberos; then
        at_least "$1: calls by $lab_protection" "$(proxy_counter "$lab_protection")" 1
        equal "$1: others" "$(for how in plain krb5 krb5i krb5p; do [ $how = "$lab_protection" ] || proxy_counter $how; done | sum)" 0
    fi
}

# lab_was_late NAME: did a call reach the server later than failover_hold? Then what failed does not count.
lab_was_late() {
    local late
    [ "$lab_server" != none ] || return 1
    late=$(proxy_counter overdue)
    [ "$late" -gt 0 ] || return 1
    note "$1: again, as $late calls may have been executed later than failover_hold: $(grep -m 1 FAILED "$T/torture")"
}
lab_rounds=0 lab_repeated=0 # how many counted; and how many were done again, up to the one that failed
# lab_rounds_of OPTION...: how many rounds of the torture program that is
lab_rounds_of() {
    local rounds=20
    while [ $# -gt 0 ]; do
        [ "$1" != --rounds ] || rounds=$2
        shift
    done
    echo "$rounds"
}
# lab_repeats PERCENT: says how many rounds were repeated. Of more than so many, what failed may be a fault that is rare.
lab_repeats() {
    local said="$lab_repeated of $((lab_rounds + lab_repeated))"
    if [ $((100 * lab_repeated)) -le $(($1 * (lab_rounds + lab_repeated))) ]; then
        ok "rounds that were repeated, as calls came too late: $said"
    else
        not_ok "rounds that were repeated, as calls came too late" \
            "$said are more than $1 %: what failed may not be of that; again, on a machine that has less to do"
    fi
}
# torture_ok NAME OPTION...: nothing is lost, stale or torn, and nothing fails
torture_ok() {
    local name=$1 tries=3 status=0 before line failed
    shift
    before=$(counter nfs_write)
    while lab_torture "$@" || status=$?; [ $status != 0 ] && [ $((--tries)) != 0 ] && lab_was_late "$name"; do
        failed=$(grep -oPm 1 '^FAILED: seed \d+ round \K\d+' "$T/torture")
        lab_repeated=$((lab_repeated + ${failed:-$(($(lab_rounds_of "$@") - 1))} + 1))
        lab_start "$lab_server" "$lab_paths" "$lab_seed"
        status=0 before=$(counter nfs_write)
    done
    lab_rounds=$((lab_rounds + $(lab_rounds_of "$@")))
    if [ $status = 0 ]; then
        line=$(tail -n 1 "$T/torture")
        ok "$name: $line"
        # Else the kernel served the files, and nothing was tested. Much is gathered, or written over before it is sent.
        [ "$lab_server" = none ] ||
            engine_at_least "$name: the engine wrote" nfs_write "$before" \
                $(($(grep -oP ' \K[0-9]+(?=/)' <<<"$line" | sum) / 8))
        protected "$name"
    else
        not_ok "$name" "$(grep -m 1 FAILED "$T/torture" || tail -n 2 "$T/log/torture")"
        sed 's/^/# /' "$T/torture"
        tail -n 20 "$DIRECTNFS_LOG" | cut -c1-200 | sed 's/^/# log: /'
    fi
}

# torture_finds NAME PATTERN OPTION...: the torture program must fail, and say what matches
torture_finds() {
    local name=$1 pattern=$2
    shift 2
    if lab_torture "$@"; then
        not_ok "$name" "nothing was found: $(tail -n 1 "$T/torture")"
    elif grep -qE "FAILED.*($pattern)" "$T/torture"; then
        ok "$name: $(grep -m 1 FAILED "$T/torture" | cut -c1-220)"
    else
        not_ok "$name" "failed for another reason: $(grep -m 1 FAILED "$T/torture" || tail -n 2 "$T/log/torture")"
    fi
}

# lab_finds_unprotected: what is changed on the way where nothing protects it is found, and so are calls in clear.
lab_finds_unprotected() {
    lab_protection=krb5
    lab_start ganesha 1 7
    torture_finds "under krb5, which protects no data, what is changed on the way is found" "LOST|STALE|TORN|too new|found" --seed 7 --rounds 100 \
        --soft --faults tamper
    lab_protection=tls
    lab_start power 1 7
    sed -i 's/tls: require/tls: prefer/' "$nfstab"
    lab_proxy all deny >>"$T/log/asked"
    echo text >"$mnt/text"
    check "TLS is only preferred, and denied: the kernel serves" under_preload cat "$mnt/text"
    at_least "TLS is only preferred, and denied: connections with bytes in clear are seen" "$(proxy_counter clear)" 1
    lab_protection=
}
# lab_finds SWITCH SERVER PATHS KIND...: without this protection faults of each of these kinds lose data, and it is
# seen, or a sync says that it may be; with it, in the same build, nothing is lost.
lab_finds() {
    local switch=$1 server=$2 paths=$3 kind
    shift 3
    for kind; do
        lab_start "$server" "$paths" 7
        unsafe=$switch
        torture_finds "without the protection '$switch' faults of the kind '$kind' lose data" "LOST|STALE|TORN|Input/output" --seed 7 \
            --rounds 300 --faults "$kind"
    done
    lab_start "$server" "$paths" 7
    unsafe=none
    torture_ok "with it they do not" --seed 7 --rounds $((3 + $# * 2)) --faults "$(IFS=, && echo "$*")"
    unsafe=
}
lab_finds_all() {
    lab_switches || return
    lab_finds verifier power 1 power-loss
    lab_finds hold power 2 late late-size kill-size
    lab_finds xid power 1 park
    lab_finds worlds power 1 worlds-loss
    lab_finds append power 1 appends
    lab_finds ahead power 1 calm
    lab_finds dirty power 1 calm
    lab_finds told power 1 full
    lab_finds flush-before-truncate power 1 kill-size
}
