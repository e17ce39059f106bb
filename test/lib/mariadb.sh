# shellcheck shell=bash
#
# A MariaDB server on $mnt/data that runs under the library, for scripts that sourced harness.sh.
# Everything runs as user mysql; connections come through a socket in $T/s.

maria_data=$mnt/data
maria_log=$T/log/mariadb.error # the server writes it
maria_socket=$T/s/socket
maria_pid_file=$T/s/pid
maria_pid=0
maria_tables=6
maria_rows=20000

# A cache that holds part of the tables, so that pages come and go; the log small, so that checkpoints are frequent.
maria_options=(--datadir="$maria_data" --tmpdir="$maria_data" --socket="$maria_socket" --pid-file="$maria_pid_file"
    --skip-networking --skip-name-resolve --performance-schema=OFF
    --innodb-flush-method=O_DIRECT --innodb-buffer-pool-size=16M
    --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=1 --innodb-io-capacity=2000
    --log-bin=binlog --sync-binlog=1 --max-binlog-size=16M --binlog-expire-logs-seconds=0)

# It maps eight TiB otherwise, which a process of a guest does not have.
maria_space=()
[ -z "${DIRECTNFS_VM:-}" ] || maria_space=(--innodb-buffer-pool-size-max=256M)

# maria_init: an empty data directory
maria_init() {
    run_as mysql
    install -d -o mysql "$T/s"
    as_user mkdir -p "$maria_data" || return
    # The names of temporary tables are of process ids, which other scripts have as well.
    TMPDIR=$T/s command_limit=120 under_preload mariadb-install-db --no-defaults --datadir="$maria_data" \
        --auth-root-authentication-method=normal --skip-test-db --innodb-flush-method=O_DIRECT \
        --innodb-use-native-aio=0 "${maria_space[@]}"
}

# maria_start OPTION...: until it answers
maria_start() {
    local preload
    preload_words
    rm -f "$maria_pid_file"
    setpriv --reuid="$run_user" --regid="$(id -g "$run_user")" --init-groups "${preload[@]}" /usr/sbin/mariadbd \
        --no-defaults "${maria_options[@]}" "${maria_space[@]}" --log-error="$maria_log" "$@" >>"$T/log/mariadb.out" 2>&1 &
    maria_pid=$! # all of these programs become the next one
    disown "$maria_pid" # no "Killed" message of the shell
    process_remember "$maria_pid"
    wait_for 60 eval 'maria_answers || maria_gone' && maria_answers
}
maria_answers() { [ -s "$maria_pid_file" ] && maria_query "SELECT 1"; }
maria_gone() { ! kill -0 "$maria_pid"; }

# maria_stop: everything is written to the files
maria_stop() { maria_client mariadb-admin --no-defaults -S "$maria_socket" -u root shutdown && wait_for 60 maria_gone; }
maria_kill() {
    process_end "$maria_pid" KILL
    wait_for 30 maria_gone
}

# The clients of the server need no library.
maria_client() { as_user "$limit" "${command_limit:-120}" "$@"; }
maria_query() { maria_client mariadb --no-defaults -S "$maria_socket" -u root -N -B "${2:-mysql}" -e "$1"; }

# maria_sysbench COMMAND OPTION...: prepare, or run for the seconds that are among the options
maria_sysbench() {
    maria_client sysbench oltp_read_write --db-driver=mysql --mysql-socket="$maria_socket" --mysql-user=root \
        --mysql-db=sbtest --tables=$maria_tables --table-size=$maria_rows --threads=8 "${@:2}" "$1"
}

# Each transaction of sysbench deletes a row and inserts another of the same number: the tables keep their sizes.
maria_row_counts() {
    local i
    for ((i = 1; i <= maria_tables; i++)); do
        maria_query "SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM sbtest$i" sbtest
    done | sort -u | tr '\t' ' '
}

# maria_status NAME: a counter of the server since it was started
maria_status() {
    maria_query "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '$1'"
}

# maria_check_tables: CHECK TABLE ... EXTENDED of sysbench's tables; prints what is not OK. What is not purged yet would
# be a warning.
maria_check_tables() {
    local i
    maria_query "SET GLOBAL innodb_max_purge_lag_wait = 0"
    for ((i = 1; i <= maria_tables; i++)); do maria_query "CHECK TABLE sbtest$i EXTENDED" sbtest; done |
        tee "$T/check" | grep -vP '\tstatus\tOK$'
    grep -cP '\tstatus\tOK$' "$T/check"
}
# maria_check_all: mariadb-check --extended of every database; prints what is not OK
maria_check_all() {
    maria_client mariadb-check --no-defaults -S "$maria_socket" -u root --all-databases --check --extended --silent
}

# maria_checksums DIR: innochecksum of every table file of a data directory after a clean shutdown
maria_checksums() {
    local file number=0
    for file in $(as_user find "$1" -name '*.ibd'); do
        as_user innochecksum "$file" || { echo "$file: status $?"; return 1; }
        number=$((number + 1))
    done
    echo "$number files"
    [ "$number" -gt "$maria_tables" ]
}

# maria_acknowledged FILE: one client inserts numbers until the server is gone, and writes each to FILE after its commit
maria_acknowledged() {
    local i
    for ((i = 1; i <= 1000000; i++)); do echo "INSERT INTO acknowledged VALUES($i); SELECT $i;"; done |
        maria_client mariadb --no-defaults -S "$maria_socket" -u root -N -B --unbuffered sbtest >"$1" 2>/dev/null
}
