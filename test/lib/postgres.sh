# shellcheck shell=bash
#
# A PostgreSQL cluster in $mnt, of the newest version that is installed, whose server runs under the library, for
# scripts that sourced harness.sh. Everything runs as user postgres; connections come through a socket in $T/s, or to
# $pg_host if the script has one. $pg_settings are lines of postgresql.conf.

pg_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
pg_data=$mnt/data
pg_log=$T/log/postgres
pg_connect=(-h "${pg_host:-$T/s}" -U postgres)

# pg_init [OPTION...]: a cluster with checksums and little memory, so that blocks come from the files and not from its
# cache; options of initdb
pg_init() {
    run_as postgres
    install -d -o postgres "$T/s"
    command_limit=120 under_preload "$pg_bin/initdb" -k -A trust -E UTF8 --locale=C -D "$pg_data" "$@" || return
    as_user tee -a "$pg_data/postgresql.conf" >/dev/null <<END
listen_addresses = ''
unix_socket_directories = '$T/s'
shared_buffers = 8MB
max_wal_size = 64MB
checkpoint_timeout = 30s
max_connections = 30
${pg_settings:-}
END
}

pg_start() {
    at_end pg_abort
    command_limit=90 under_preload "$pg_bin/pg_ctl" -D "$pg_data" -l "$pg_log" -w -t 60 start
}
pg_stop() { as_user "$pg_bin/pg_ctl" -D "$pg_data" -w -t 60 -m "${1:-fast}" stop; }
pg_abort() { [ ! -e "$pg_data/postmaster.pid" ] || as_user "$pg_bin/pg_ctl" -D "$pg_data" -w -t 10 -m immediate stop; }

# The clients of the server need no library.
pg_client() { as_user "$limit" "${command_limit:-180}" "$@"; }
pg_query() { pg_client "$pg_bin/psql" "${pg_connect[@]}" -d "${2:-postgres}" -qXAt -v ON_ERROR_STOP=1 -c "$1"; }
pg_bench() { pg_client "$pg_bin/pgbench" "${pg_connect[@]}" "$@" postgres; }
pg_amcheck() {
    pg_client "$pg_bin/pg_amcheck" "${pg_connect[@]}" --install-missing --heapallindexed --parent-check --no-strict-names \
        -d postgres
}

# The four sums that pgbench keeps equal.
pg_sums() {
    pg_query "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
        AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)
        AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
        AND (SELECT count(*) FROM pgbench_history) > 0"
}
