# shellcheck shell=bash
#
# Functions for what runs in a guest of test/vm/run: the kernel's NFS server, mounts of it by the kernel's client, and
# what can go wrong between them. They fail with a message on standard error.
#
#     . test/vm/guest.sh
#     knfs_start                          # exports $knfs_export, on tmpfs
#     knfs_mount vers=3                   # mounts it at $knfs_mount
#     knfs_nfstab >FILE                   # what the library must know to serve it
#
# Server and client are in the same network namespace, on 127.0.0.1: what the client's kernel does and what the library
# does is counted together by knfs_calls. Everything ends with the guest.

knfs_export=/srv/knfs
knfs_mount=/mnt/nfs
knfs_mount_port=20048 # of mountd
knfs_host=127.0.0.1   # by which it is mounted

[ -n "${DIRECTNFS_VM:-}" ] || { echo "guest.sh: only in a guest, see test/vm/run" >&2; return 1; }

# knfs_start [OPTIONS]: the server, with these options of exports(5) beside those here, which they overrule
knfs_start() {
    modprobe -a nfsd nfs nfsv3 || return
    mkdir -p "$knfs_export" /run/rpcbind /run/rpc_pipefs /var/lib/nfs/{sm,sm.bak,v4recovery} || return
    mountpoint -q "$knfs_export" || mount -t tmpfs -o size=50%,mode=1777 tmpfs "$knfs_export" || return
    mount -t nfsd nfsd /proc/fs/nfsd && mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs || return
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    rpcbind -w && rpc.statd --no-notify && knfs_reexport "$@" && rpc.mountd -p "$knfs_mount_port" -u || return
    # The largest transfer otherwise depends on the guest's memory.
    echo 1048576 >/proc/fs/nfsd/max_block_size
    knfs_threads 8
}
# Nobody has locks to reclaim when it starts: with its grace period new ones would wait.
knfs_threads() { rpc.nfsd -G 10 -L 10 -U "$1" && { [ "$1" = 0 ] || echo Y >/proc/fs/nfsd/v4_end_grace; }; }

# knfs_reexport [OPTIONS]: other options for the same export. The root of version 4 is this export.
knfs_reexport() { exportfs -i -o "rw,no_root_squash,no_subtree_check,insecure,async,fsid=0${1:+,$1}" "*:$knfs_export"; }

# knfs_stop, knfs_continue, knfs_restart: the server's threads end, its connections with them; it forgets what it has
# answered, and gets a new write verifier.
knfs_stop() { knfs_threads 0; }
knfs_continue() { knfs_threads 8; }
knfs_restart() { knfs_stop && knfs_continue; }

# knfs_end_mountd: mountd and the port mapper end; what is mounted stays
knfs_end_mountd() {
    local program
    for program in rpc.mountd rpcbind; do kill -KILL $(pidof "$program") || return; done
}

# knfs_mount OPTIONS [DIR [SUBDIR]]: mounts the export, or a directory in it, at DIR ($knfs_mount), hard, over TCP. Every
# call is a mount with a cache of its own if OPTIONS has `nosharecache`.
knfs_mount() {
    local options=$1 dir=${2:-$knfs_mount} source=$knfs_export${3:+/$3}
    mkdir -p "$dir" || return
    case $options in
    *vers=4*) modprobe nfsv4 && source=/${3:-} ;;
    *) options+=,mountproto=tcp,mountport=$knfs_mount_port ;;
    esac
    mount -t nfs -o "hard,proto=tcp,$options" "$knfs_host:$source" "$dir"
}
knfs_unmount() { umount "${1:-$knfs_mount}"; }

# knfs_nfstab: an nfstab(5) for $knfs_mount, on standard output. It names the export as the kernel's mount does.
knfs_nfstab() {
    printf 'server: knfs\npath: 127.0.0.1\nexport: %s mount: %s\n' \
        "$(findmnt -n -o SOURCE "$knfs_mount" | sed 's/^[^:]*://')" "$knfs_mount"
}

# knfs_realm: a Kerberos realm EXAMPLE of this guest, whose KDC listens at 127.0.0.1:8888, with the service principal
# nfs/knfs.example of the server, which root's kernel client uses as well. Programs find it by /etc/krb5.conf. From then
# on the server and the kernel's client know Kerberos, and mounts are made of knfs.example.
knfs_realm() {
    local dir=/run/realm
    mkdir -p $dir && hostname knfs.example && echo '127.0.0.1 knfs.example' >>/etc/hosts || return
    cat >/etc/krb5.conf <<END
[libdefaults]
    default_realm = EXAMPLE
    dns_lookup_kdc = false
    dns_lookup_realm = false
    rdns = false
[realms]
    EXAMPLE = {
        kdc = 127.0.0.1:8888
    }
[domain_realm]
    .example = EXAMPLE
END
    cat >$dir/kdc.conf <<END
[kdcdefaults]
    kdc_ports = 8888
    kdc_tcp_ports = 8888
[realms]
    EXAMPLE = {
        database_name = $dir/principal
        key_stash_file = $dir/stash
    }
END
    printf '[General]\nDomain = example\nLocal-Realms = EXAMPLE\n' >/etc/idmapd.conf
    export KRB5_KDC_PROFILE=$dir/kdc.conf
    rm -f /etc/krb5.keytab
    kdb5_util create -s -P "$RANDOM$RANDOM" && knfs_principal nfs/knfs.example /etc/krb5.keytab &&
        krb5kdc -P $dir/pid && modprobe -a auth_rpcgss rpcsec_gss_krb5 || return
    rpc.svcgssd -p nfs/knfs.example && rpc.gssd && knfs_host=knfs.example
} >/run/realm.log 2>&1
# knfs_principal NAME KEYTAB: makes a principal, and adds its keys
knfs_principal() { kadmin.local addprinc -randkey "$1" && kadmin.local ktadd -k "$2" "$1"; }

# knfs_forget_contexts: the server's kernel forgets all contexts; it answers their next calls with RPCSEC_GSS_CREDPROBLEM.
knfs_forget_contexts() { date -d 'now + 1 sec' +%s >/proc/net/rpc/auth.rpcsec.context/flush && sleep 1.1; }

# knfs_delay TIME: every packet takes so long, such as 1ms; a round trip twice that. 0: no more.
knfs_delay() {
    if [ "$1" = 0 ]; then
        tc qdisc del dev lo root
    else
        modprobe sch_netem && tc qdisc replace dev lo root netem delay "$1" limit 20000
    fi
}

# knfs_block [drop|reset] PORT...: what is sent to these TCP ports is lost, or refused (the default). The server's port is
# 2049, mountd's $knfs_mount_port, the port mapper's 111. Connections that are there are cut too. knfs_unblock: no more.
knfs_block() {
    local port what=(REJECT --reject-with tcp-reset)
    case $1 in
    drop) what=(DROP); shift ;;
    reset) shift ;;
    esac
    for port; do iptables-legacy -w -A INPUT -p tcp --dport "$port" -j "${what[@]}" || return; done
}
knfs_unblock() { iptables-legacy -w -F INPUT; }

knfs_procedures=(null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename
    link readdir readdirplus fsstat fsinfo pathconf commit)
# knfs_calls: how many calls of each procedure of version 3 the server has counted, a line `NAME NUMBER` for each
knfs_calls() {
    local counts i
    read -ra counts < <(sed -n 's/^proc3 22 //p' /proc/net/rpc/nfsd)
    for i in "${!knfs_procedures[@]}"; do echo "${knfs_procedures[i]} ${counts[i]:-0}"; done
}
# knfs_calls_of COMMAND...: runs it with its output on standard error, and prints the calls that were counted
# meanwhile, as `NAME NUMBER` in one line; nothing if there were none
knfs_calls_of() {
    local before status
    before=$(knfs_calls)
    "$@" >&2
    status=$?
    knfs_calls | paste -d ' ' - <(echo "$before") |
        awk '$2 != $4 { printf "%s%s %d", sep, $1, $2 - $4; sep = " " } END { if (sep) print "" }'
    return $status
}

# knfs_as USER COMMAND...: as a user who is not root, without any capability
knfs_as() {
    local user=$1
    shift
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups --inh-caps=-all "$@"
}
