# shellcheck shell=bash
#
# What a script stands on whose checks need a kernel NFS mount; source it first, in place of harness.sh:
#
#     time_limit=120                   # seconds for the whole script, optional
#     . "$(dirname "$0")/../vm/scene.sh" || exit 1
#
# The script is started again in a guest (test/vm/run), where it has the functions of test/vm/guest.sh and of
# test/lib/harness.sh, with these differences: the kernel's server runs, $mnt is a mount of it by the kernel's client
# (version 3), and the nfstab names it. `memory=MB` before makes the guest larger.
#
# In scripts/check test/integration/knfs-* run it, or are such scripts; `SCRIPT` and `test/vm/run -- SCRIPT` by hand do
# the same.

: "${time_limit:=180}"
scene_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

scene_outside() {
    local status
    if ! command -v linux.uml >/dev/null; then
        echo "skip ${0##*/}: needs the package user-mode-linux"
        exit 0
    fi
    "$scene_dir/run" -t $((time_limit + 30)) -m "${memory:-1536}" -- "$(realpath "$0")" "$@" &
    trap 'kill -TERM $!' INT TERM HUP
    wait $!
    status=$?
    while kill -0 $! 2>/dev/null; do wait $!; status=$?; done
    [ $status -lt 124 ] || echo "not ok ${0##*/}: the guest ended with status $status"
    exit $status
}
[ -n "${DIRECTNFS_VM:-}" ] || scene_outside "$@"

# The system's programs: scripts that a user has in front of them would run under the library too, which is slow here.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The guest is a machine of its own.
export DIRECTNFS_TEST_SPACE=host
. "$scene_dir/../lib/harness.sh" && . "$scene_dir/guest.sh" || exit 1
if ! knfs_start || ! knfs_mount "${mount_options:-vers=3}"; then
    not_ok "kernel NFS mount" "the server or the mount failed"
    exit 1
fi
mnt=$knfs_mount
knfs_nfstab >"$nfstab"
