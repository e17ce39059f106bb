# shellcheck shell=bash
#
# A fresh Debian in a directory of its own, with the network of this machine, for scripts that sourced harness.sh with
# DIRECTNFS_TEST_SPACE=host:
#
#     chroot_make SUITE || exit       the directory is $root
#     inside COMMAND...               a command there
#     apt COMMAND...                  apt-get there
. "$top/test/lib/machine.sh" || exit 1

# inside COMMAND...: with file systems that are unmounted when the command ends, and no process left
export -f machine_devices
inside() {
    # shellcheck disable=SC2016
    unshare -m -p -f --kill-child=KILL bash -c '
        root=$1
        shift
        mount --make-rprivate / && mount --bind "$root" "$root" && machine_devices "$root/dev" &&
            mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" &&
            mount -t tmpfs -o mode=755 tmpfs "$root/run" && mkdir -p "$root/.old" && cd "$root" &&
            pivot_root . .old && umount -l .old && rmdir .old || exit
        env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
        exit' inside "$root" "$@"
}
apt() { inside apt-get -qq -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"; }

# chroot_make SUITE: packages come from where this machine gets them; no service starts
chroot_make() {
    local sources=/etc/apt/sources.list.d/debian.sources
    root=$(mktemp -d /var/tmp/directnfs.XXX) && chmod 755 "$root" || return
    at_end "rm -rf --one-file-system '$root'"
    check "$1: debootstrap" debootstrap --variant=minbase "$1" "$root" http://deb.debian.org/debian || return
    grep -ls '^Acquire' /etc/apt/apt.conf.d/* | xargs -r cp -t "$root/etc/apt/apt.conf.d"
    if grep -qs "^Suites: $1 " $sources; then
        cp $sources "$root/etc/apt/sources.list.d/"
        rm -f "$root/etc/apt/sources.list"
    fi
    cp /etc/resolv.conf "$root/etc/"
    ln -sf ../proc/self/mounts "$root/etc/mtab"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/etc/postgresql-common" "$root/var/tmp/source"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
    check "$1: package lists" apt update
}
