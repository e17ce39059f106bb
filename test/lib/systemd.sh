# shellcheck shell=bash
#
# A systemd of its own: process 1 of its own namespaces, in a control group of its own, with the root directory of this
# machine and no units but those here. Source it after harness.sh, which must have given the script namespaces.
#
#     unit NAME                   writes a unit from the standard input, before or after systemd_start
#     systemd_start               false: this machine does not let it, and $systemd_lacks says what
#     inside COMMAND...           in its namespaces
#     journal PATTERN             what process 1 wrote to the journal so far has a line that matches
# shellcheck disable=SC2154 # set by harness.sh

units=$T/units
unit() { mkdir -p "$units" && cat >"$units/$1"; }
inside() { nsenter -t "$systemd_pid" -m -p -i -u -C env -u LD_PRELOAD "$@"; }
journal() { inside journalctl -q --no-pager _PID=1 | grep -E -- "$1"; }

systemd_units() {
    local target
    for target in sysinit basic test shutdown; do
        printf '[Unit]\nDefaultDependencies=no\n' | unit "$target.target"
    done
    printf '[Unit]\nWants=systemd-journald.socket systemd-journald.service\n' >>"$units/test.target"
    printf '[Unit]\nDefaultDependencies=no\n[Socket]\nService=systemd-journald.service\nListenStream=/run/systemd/journal/stdout\nListenDatagram=/run/systemd/journal/socket\n' |
        unit systemd-journald.socket
    printf '[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.socket\nAfter=systemd-journald.socket\n[Service]\nType=notify\nExecStart=/lib/systemd/systemd-journald\nRuntimeDirectory=systemd/journal\n' |
        unit systemd-journald.service
}

# What it would change of this machine is its own: /run, the console, the kernel's log and the machine's id; and it
# must not change /proc/sys.
systemd_boot='
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind "$1/machine-id" /etc/machine-id
mount --bind /dev/null /dev/console
mount --bind /dev/null /dev/kmsg
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec env -i PATH="$PATH" container=test SYSTEMD_UNIT_PATH="$1" SYSTEMD_GENERATOR_PATH="$1/none" SYSTEMD_ENVIRONMENT_GENERATOR_PATH="$1/none" \
    /lib/systemd/systemd --system --unit=test.target --log-target=journal --show-status=no'

systemd_end() {
    process_end "$systemd_job"
    wait_for 10 systemd_forget
}
systemd_forget() {
    find "$systemd_group" -depth -type d -exec rmdir {} +
    [ ! -e "$systemd_group" ]
}

systemd_start() {
    local groups
    systemd_lacks="namespaces"
    [ "$HARNESS_SPACE" != 0 ] || return 1
    systemd_lacks="/lib/systemd/systemd"
    [ -x /lib/systemd/systemd ] || return 1
    systemd_lacks="control groups (version 2)"
    groups=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
    systemd_group=$groups/${T##*/}
    [ -n "$groups" ] && mkdir "$systemd_group" 2>>"$T/log/systemd" || return 1
    systemd_units
    head -c 32 /dev/zero | tr '\0' d >"$units/machine-id"
    bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare -C -m -p -i -u -f --mount-proc --kill-child=KILL bash -c "$2" boot "$3"' \
        start "$systemd_group" "$systemd_boot" "$units" >>"$T/log/systemd" 2>&1 </dev/null &
    systemd_job=$!
    disown "$systemd_job"
    process_remember "$systemd_job"
    at_end systemd_end
    systemd_lacks="a systemd that starts here"
    wait_for 10 eval 'systemd_pid=$(pgrep -P "$systemd_job") && inside systemctl is-active test.target'
}
