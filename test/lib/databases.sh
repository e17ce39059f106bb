# shellcheck shell=bash
#
# fio, SQLite, PostgreSQL and MariaDB under load, on $mnt, while their server dies and comes back, and killed themselves:
# for scripts that sourced harness.sh and have
#
#     server_kill, server_start    functions: what the server took is in the files, and nothing else is left of it
#     mount_clear                  a function: removes all files; if it is not as simple as here
#     deaths     how often it dies while each of them works
#     seconds    how long they work before each kill, beside what they have to have done

# acknowledged COUNT: so many more are in $T/acknowledged soon, and then the database works for a while
acknowledged() {
    local enough=$(($(wc -l <"$T/acknowledged") + $1))
    wait_for 10 eval '[ "$(wc -l <"$T/acknowledged")" -ge $enough ]'
    sleep "$seconds"
}
# server_dies COUNT: as often as it shall, with so much done before, after, and between
server_dies() {
    local death
    acknowledged "$1"
    for ((death = 0; death < deaths; death++)); do
        server_kill
        server_start
        acknowledged "$1"
    done
}

# progress: a number that grows while the program works. calls_wait NAME PATTERN COMMAND...: checks that the log says why,
# that nothing is acknowledged, and that the program goes on after the command.
progress() { if [ -e "$T/acknowledged" ]; then wc -l <"$T/acknowledged"; else counter nfs_writebytes; fi; }
stands() {
    local before
    before=$(progress)
    sleep 1
    [ "$(progress)" = "$before" ]
}
calls_wait() {
    local began=$SECONDS waited
    check "$1: the log says so" wait_for 20 grep -qE "$2" "$DIRECTNFS_LOG"
    check "$1: calls wait" wait_for 20 stands
    waited=$(progress)
    "${@:3}"
    check "$1: then they go on" wait_for 30 eval '[ "$(progress)" -gt $((waited + 5)) ]'
    note "$1: $((SECONDS - began)) s"
}

# kernels_files: files of databases, not of their settings, that the kernel served, with the reason
kernels_files() {
    {
        statistics files 2>>"$T/log/stat" | jq -r '.[] | select(.state | startswith("kernel")) | .filename + ": " + .state'
        grep -E '(stays with|handed to) the kernel' "$DIRECTNFS_LOG"
    } | grep -E '/(base|global|pg_wal|pg_xact)/[0-9A-F]|\.ibd: |/(ib_logfile|ibdata|undo|binlog\.)[0-9]|/(WAL|DELETE)(-wal|-journal)?: |/fio: ' |
        sort -u | head -n 3
}

declare -F mount_clear >/dev/null || mount_clear() { rm -rf "${mnt:?}"/*; }

# ---- fio ----

# Again and again, until the server has died often enough.
fio_scene() {
    local job before death
    before=$(counter nfs_writebytes)
    rm -f "$T/fio.end" "$T/acknowledged"
    while [ ! -e "$T/fio.end" ]; do
        command_limit=$((120 + 40 * seconds)) under_preload fio --name=job --filename="$mnt/fio" --size=48m --bs=8k --rw=randwrite \
            --ioengine=libaio --iodepth=32 --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --thread --fsync=64 \
            >"$T/fio" 2>&1 || exit
    done &
    job=$!
    for ((death = 0; death < deaths; death++)); do
        fio_more "$before"
        server_kill
        server_start
        before=$(counter nfs_writebytes)
    done
    fio_more "$before"
    touch "$T/fio.end"
    if wait $job; then ok "fio: each block is what was written"; else not_ok "fio" "$(tail -n 5 "$T/fio")"; fi
    engine_at_least "fio: it went on behind the last kill" nfs_writebytes "$before" 8000000
    as_user rm -f "$mnt/fio"
}
# fio_more BYTES: it has written 8 MB more than that, and works for a while
fio_more() {
    wait_for 10 eval "[ \"\$(counter nfs_writebytes)\" -gt $(($1 + 8000000)) ]"
    sleep "$seconds"
}

# ---- SQLite ----

# Transactions that say so after COMMIT, until killed: `a` and `b` get the same rows.
endless() {
    local i
    echo "$1 CREATE TABLE IF NOT EXISTS a(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE IF NOT EXISTS b(id INTEGER PRIMARY KEY, v TEXT);"
    for ((i = $2; i < $2 + 100000; i++)); do
        echo "BEGIN; INSERT INTO a VALUES($i, printf('%02000d', $i)); INSERT INTO b SELECT id, v FROM a WHERE id = $i; COMMIT; SELECT $i;"
    done
}
# sqlite_scene MODE...: with these journals
sqlite_scene() {
    local mode pragmas job last
    preload_words
    for mode in "$@"; do
        pragmas="PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=$mode; PRAGMA synchronous=FULL; PRAGMA cache_size=20;"
        : >"$T/acknowledged" >"$T/pid"
        chmod 666 "$T/pid"
        # shellcheck disable=SC2016
        as_user "${preload[@]}" bash -c 'echo $$ >"$1/pid"; exec sqlite3 -bail "$2"' _ "$T" "$mnt/$mode" \
            < <(endless "$pragmas" 1) >"$T/acknowledged" 2>"$T/log/sqlite" &
        job=$!
        disown $job
        server_dies 5
        kill -9 "$(cat "$T/pid")"
        while kill -0 $job 2>/dev/null; do sleep 0.02; done
        last=$(grep -E '^[0-9]+$' "$T/acknowledged" | tail -n 1)
        at_least "SQLite, $mode: transactions" "${last:-0}" 10
        equal "SQLite, $mode: integrity after kill -9" "$(under_preload sqlite3 "$mnt/$mode" "$pragmas PRAGMA integrity_check;" | tail -n 1)" ok
        at_least "SQLite, $mode: what was acknowledged is there" \
            "$(under_preload sqlite3 "$mnt/$mode" "SELECT max(id) FROM a;")" "${last:-1}"
        equal "SQLite, $mode: no transaction is torn" "$(under_preload sqlite3 "$mnt/$mode" "SELECT count(*) FROM a
            WHERE v IS NOT (SELECT v FROM b WHERE b.id = a.id);")" 0
        equal "SQLite, $mode: integrity as the kernel sees it" "$(as_user sqlite3 "$mnt/$mode" "PRAGMA integrity_check;")" ok
    done
}

# ---- PostgreSQL ----

postgres_scene() {
    local bench last
    . "$top/test/lib/postgres.sh" || exit 1
    check "PostgreSQL: initdb" pg_init || return
    check "PostgreSQL: start" pg_start || return
    check "pgbench -i" pg_bench -i -s 1 -q
    pg_query "CREATE TABLE acknowledged(n int PRIMARY KEY)"
    : >"$T/acknowledged"
    pg_bench -n -c 4 -j 2 -T 60 >"$T/pgbench" 2>&1 &
    bench=$!
    for ((n = 1; n <= 100000; n++)); do echo "INSERT INTO acknowledged VALUES($n) RETURNING n;"; done |
        pg_client "$pg_bin/psql" "${pg_connect[@]}" -d postgres -qXAt >"$T/acknowledged" 2>"$T/log/psql" &
    server_dies 10
    equal "pgbench, the server killed: no error" "$(grep -ciE 'error|fatal|abort' "$T/pgbench")" 0
    as_user head -n 1 "$pg_data/postmaster.pid" >"$T/pid"
    pg_kill_all "$(cat "$T/pid")"
    wait $bench
    last=$(tail -n 1 "$T/acknowledged")
    at_least "PostgreSQL: transactions of one client before kill -9" "${last:-0}" 20
    as_user rm -f "$pg_data/postmaster.pid"
    check "PostgreSQL: start, recovery" pg_start || return
    equal "PostgreSQL: none that was acknowledged is lost" \
        "$(pg_query "SELECT count(*) FROM acknowledged WHERE n <= ${last:-0}")" "${last:-0}"
    equal "PostgreSQL: sums agree" "$(pg_sums)" t
    check "PostgreSQL: amcheck" pg_amcheck
    check "PostgreSQL: stop" pg_stop fast
    check "PostgreSQL: checksums, read by the engine" under_preload "$pg_bin/pg_checksums" --check -D "$pg_data"
    check "PostgreSQL: checksums, read by the kernel" as_user "$pg_bin/pg_checksums" --check -D "$pg_data"
    equal "PostgreSQL: no error in its log" "$(grep -cE 'PANIC|was terminated by signal|ERROR: .*could not (read|write|extend|open|fsync)' "$pg_log")" 0
}
# pg_kill_all POSTMASTER: it and its children, all with SIGKILL
pg_kill_all() {
    local children
    kill -STOP "$1" # it would start others
    children=$(cat "/proc/$1/task/$1/children")
    # shellcheck disable=SC2086
    kill -KILL "$1" $children 2>/dev/null # some may have ended
    for child in $1 $children; do while [ -d "/proc/$child" ] && ! grep -q '^State:.Z' "/proc/$child/status" 2>/dev/null; do sleep 0.02; done; done
}

# ---- MariaDB ----

mariadb_scene() {
    local load client last options=(--innodb-use-native-aio=0 --innodb-flush-method=fsync)
    . "$top/test/lib/mariadb.sh" || exit 1
    maria_tables=2 maria_rows=2000
    for program in mariadbd mariadb-install-db sysbench; do
        command -v $program >/dev/null || { skip "MariaDB" "$program is not installed"; return; }
    done
    mount_clear
    check "MariaDB: mariadb-install-db" maria_init || return
    check "MariaDB: start" maria_start "${options[@]}" || return
    maria_query "CREATE DATABASE sbtest"
    check "sysbench prepare" maria_sysbench prepare || return
    maria_query "CREATE TABLE acknowledged(n INT PRIMARY KEY)" sbtest
    : >"$T/acknowledged"
    maria_sysbench run --time=60 >"$T/sysbench" 2>&1 &
    load=$!
    maria_acknowledged "$T/acknowledged" &
    client=$!
    server_dies 10
    equal "sysbench, the server killed: no error" "$(grep -cE 'FATAL|ALERT|[Ll]ost connection' "$T/sysbench")" 0
    check "MariaDB: kill -9" maria_kill
    wait $load $client
    check "MariaDB: start, recovery" maria_start "${options[@]}" || return
    last=$(tail -n 1 "$T/acknowledged")
    at_least "MariaDB: transactions of one client before kill -9" "${last:-0}" 20
    equal "MariaDB: none that was acknowledged is lost" \
        "$(maria_query "SELECT COUNT(*) FROM acknowledged WHERE n <= ${last:-0}" sbtest)" "${last:-0}"
    equal "MariaDB: no row is missing or twice" "$(maria_row_counts)" "$maria_rows $maria_rows 1 $maria_rows"
    equal "MariaDB: CHECK TABLE ... EXTENDED" "$(maria_check_tables)" $maria_tables
    check "MariaDB: stop" maria_stop
    check "MariaDB: innochecksum of what the kernel reads" maria_checksums "$maria_data"
    # With Kerberos the kernel's client of the guest, which has no names for users, changes no owners.
    equal "MariaDB: no error in its log" \
        "$(grep -E '\[ERROR\]|Got error|corrupt' "$maria_log" | grep -v "copy ownership.*Invalid argument" | head -n 3)" ""
}
