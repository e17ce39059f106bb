# shellcheck shell=bash
#
# A machine of its own for scripts that sourced harness.sh: the same files, copied on write, and systemd as its first
# process. Packages can be installed there, services started, /etc changed; all of it is gone afterwards.
#
#     machine_root || exit       from now on / is the machine's
#     machine_boot || exit       systemd runs
#     machine COMMAND...         a command there

# machine_overlay DIR PLACE: DIR, copied on write, at PLACE
machine_overlay() {
    local store
    mkdir -p "$T/root" && store=$(mktemp -d "$T/root/layer.XXXX") && mkdir -p "$store/upper" "$store/work" "$2" || return
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$store/upper,workdir=$store/work" "$2"
}

# The devices that programs expect, and none of the real machine.
machine_devices() {
    local node
    mount -t tmpfs -o mode=755 tmpfs "$1" && mkdir "$1/shm" "$1/pts" || return
    for node in null zero full random urandom tty; do cp -a "/dev/$node" "$1/" || return; done
    ln -s /proc/self/fd "$1/fd"
    ln -s pts/ptmx "$1/ptmx"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/pts" && mount -t tmpfs -o mode=1777 tmpfs "$1/shm"
}

# machine_root: fails, with the reason in $T/log/machine, where that is not permitted
machine_root() {
    local root=$T/root/m path
    [ "$HARNESS_SPACE" != 0 ] || { echo "no namespaces" >"$T/log/machine"; return 1; }
    {
        machine_overlay / "$root" && machine_devices "$root/dev" && mount -t proc proc "$root/proc" &&
            mount -t sysfs -o ro sysfs "$root/sys" && mount -t tmpfs -o mode=755 tmpfs "$root/run" || return
        mkdir -p "$root$T" && mount --bind "$T" "$root$T" || return
        # The checkout and the build directory may be file systems of their own.
        for path in "$top" "$BUILD"; do
            [ "$(findmnt -n -o TARGET -T "$path")" = / ] || machine_overlay "$path" "$root$path" || return
        done
        cd "$root" && mkdir -p .old && pivot_root . .old && umount -l .old && rmdir .old && cd "$top" &&
            mkdir -p "$T/root/cgroup" && mount -t cgroup2 cgroup2 "$T/root/cgroup"
    } >"$T/log/machine" 2>&1
}

machine_pid=0
# Only what services need before they start: no devices, no timers, no settings of the kernel.
machine_boot() {
    local unit group=$T/root/cgroup/directnfs.$$.${T##*.}
    rm -rf /etc/systemd/system/*.wants
    for unit in dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
        sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
        systemd-udevd.service systemd-udev-trigger.service systemd-sysctl.service systemd-random-seed.service \
        systemd-modules-load.service modprobe@.service systemd-remount-fs.service \
        systemd-tmpfiles-setup.service systemd-journald-audit.socket; do
        ln -sf /dev/null "/etc/systemd/system/$unit"
    done
    cat >/etc/systemd/system/machine.target <<END
[Unit]
Wants=sysinit.target systemd-journald.service
END
    mkdir "$group" || return
    # shellcheck disable=SC2016
    (
        echo "$BASHPID" >"$group/cgroup.procs" || exit
        exec unshare -C -p -m -f --mount-proc --kill-child=KILL bash -c '
            mount --make-rprivate / && mount -o bind,ro /proc/sys /proc/sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup &&
                exec env -i container=other PATH="$PATH" /lib/systemd/systemd --unit=machine.target --show-status=no'
    ) </dev/null >>"$T/log/systemd" 2>&1 &
    process_remember $!
    at_end "machine_end $! '$group'"
    wait_for 5 eval 'machine_pid=$(pgrep -P '$!')' && wait_for 20 machine_runs &&
        machine_sudo && machine systemd-tmpfiles --create >>"$T/log/systemd" 2>&1
}
machine_runs() { machine systemctl is-system-running | grep -qE 'running|degraded'; }
machine_end() {
    process_end "$1"
    wait_for 5 machine_group_removed "$2"
}
machine_group_removed() {
    find "$1" -depth -type d -exec rmdir {} +
    [ ! -d "$1" ]
}

# What every administrator has, with the one option that matters.
machine_sudo() {
    command -v sudo >/dev/null || install -m 755 /dev/stdin /usr/local/bin/sudo <<'END'
#!/bin/sh
user=root
[ "$1" != -u ] || { user=$2; shift 2; }
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$@"
END
}

# machine COMMAND...: with the environment of a login of root
machine() {
    nsenter -t "$machine_pid" -m -p -C -w/ env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
