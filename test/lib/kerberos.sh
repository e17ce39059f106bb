# shellcheck shell=bash
#
# A realm of Kerberos of the test's own, T.TEST: a KDC on loopback, the principals of the server and of users, and
# nfs-ganesha as a server of it. After harness.sh. Needs: krb5-kdc, krb5-admin-server, krb5-user.
#
#     kerberos_start                the KDC, nfs/testserver in $T/server.keytab, and the server's configuration; before
#                                   ganesha_start. KRB5CCNAME is $T/tickets from then on
#     kerberos_principal NAME [-maxlife TIME]   a principal, its keys in $T/NAME.keytab
#     kerberos_ticket NAME [TIME]   a ticket of it in $KRB5CCNAME, for so long (1 hour); got by $run_user
#     kdc_end, kdc_run              the KDC is away, and there again

kdc_pid=0
kdc_port=18888

kdc_run() {
    krb5kdc -n >>"$T/log/kdc" 2>&1 &
    kdc_pid=$!
    disown "$kdc_pid"
    process_remember "$kdc_pid"
    wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$kdc_port"
}
kdc_end() {
    process_end "$kdc_pid" KILL
    while kill -0 "$kdc_pid" 2>/dev/null; do sleep 0.01; done
}

kerberos_principal() {
    kadmin.local -q "addprinc -randkey ${*:2} $1" >>"$T/log/kadmin" 2>&1
    kadmin.local -q "ktadd -k $T/${1%%/*}.keytab $1" >>"$T/log/kadmin" 2>&1
}
kerberos_ticket() { as_user kinit -k -t "$T/$1.keytab" -l "${2:-1h}" "$1" >>"$T/log/kinit" 2>&1; }

kerberos_start() {
    [ "$HARNESS_SPACE" != 0 ] || kdc_port=$(free_port)
    export KRB5_CONFIG=$T/krb5.conf KRB5_KDC_PROFILE=$T/kdc.conf KRB5CCNAME=FILE:$T/tickets
    # Replays are looked for in a file, with an fsync() for each context.
    export KRB5RCACHENAME=none:
    cat >"$KRB5_CONFIG" <<END
[libdefaults]
    default_realm = T.TEST
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    kdc_timeout = 2
    max_retries = 1
[realms]
    T.TEST = {
        kdc = 127.0.0.1:$kdc_port
    }
[domain_realm]
    testserver = T.TEST
END
    cat >"$KRB5_KDC_PROFILE" <<END
[kdcdefaults]
    kdc_listen = 127.0.0.1:$kdc_port
    kdc_tcp_listen = 127.0.0.1:$kdc_port
[realms]
    T.TEST = {
        database_name = $T/kdc.database
        key_stash_file = $T/kdc.stash
        acl_file = $T/kdc.acl
        max_life = 10h
    }
END
    cat >"$T/idmapd.conf" <<END
[General]
Domain = t.test
Local-Realms = T.TEST
[Translation]
Method = nsswitch
END
    chmod 644 "$KRB5_CONFIG"
    kdb5_util create -s -r T.TEST -P test >"$T/log/kadmin" 2>&1
    kerberos_principal nfs/testserver
    mv "$T/nfs.keytab" "$T/server.keytab"
    ganesha_options="IdmapConf = $T/idmapd.conf;"
    ganesha_blocks="NFS_KRB5 { PrincipalName = nfs; KeytabPath = $T/server.keytab; Active_krb5 = true; CCacheDir = $T/server.tickets; }"
    kdc_run
}
