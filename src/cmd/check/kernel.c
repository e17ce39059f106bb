#include "cmd/check/check.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_TRANSFER 65536

static const struct {
    const char *option; /* as in /proc/self/mountinfo, with "=value" if the value matters */
    const char *harm, *remedy;
} bad_options[] = {
    {"soft",
     "after a time-out the kernel gives errors instead of waiting: opens, locks and files "
     "that are left to it fail while the server is away",
     "hard"},
    {"softerr", "after a time-out the kernel gives errors instead of waiting", "hard"},
    {"softreval", "names may be stale while the server is away", "without softreval"},
    {"sync", "each write of files that are left to the kernel waits for the disk", "without sync"},
    {"noac",
     "each open and stat asks the server, and writes of the kernel wait for the disk; files "
     "that are served do not need it",
     "without noac"},
    {"actimeo=0", "each open and stat asks the server; files that are served do not need it",
     "without actimeo"},
    {"lookupcache=none", "each name is asked for at each open", "without lookupcache"},
    {"nolock", "locks are not seen by other hosts: two may run one database", "without nolock"},
    {"local_lock=all", "locks are not seen by other hosts: two may run one database",
     "local_lock=none"},
    {"proto=udp", "UDP corrupts data on fast networks, see nfs(5)", "proto=tcp"},
    {"proto=udp6", "UDP corrupts data on fast networks, see nfs(5)", "proto=tcp6"},
    {"vers=2", "version 2 has no files beyond 2 GiB", "vers=3"},
};

static bool has(const struct conf_mount *mount, const char *option)
{
    char name[32], value[64];
    size_t length = strcspn(option, "=");
    memcpy(name, option, length);
    name[length] = '\0';
    const char *wanted = option[length] ? option + length + 1 : NULL;
    return (conf_mount_option(mount->super_options, name, value, sizeof(value)) ||
            conf_mount_option(mount->options, name, value, sizeof(value))) &&
           (wanted == NULL || strcmp(value, wanted) == 0);
}

static void check_sizes(const struct conf_mount *mount)
{
    static const char *const names[] = {"rsize", "wsize"};
    char value[32];
    for (size_t i = 0; i < 2; i++) {
        if (!conf_mount_option(mount->super_options, names[i], value, sizeof(value)) ||
            strtoul(value, NULL, 10) >= SMALLEST_TRANSFER)
            continue;
        check_say(CHECK_WARNING, "kernel",
                  "mounted with %s=%s: files that are left to the kernel are moved in small pieces",
                  names[i], value);
        check_remedy("mount without %s: client and server agree on the largest", names[i]);
    }
}

void check_kernel_mount(const struct conf_mount *mount)
{
    char version[16] = "";
    if (strncmp(mount->type, "nfs", 3) != 0)
        return;
    conf_mount_option(mount->super_options, "vers", version, sizeof(version));
    check_say(CHECK_INFO, "kernel", "mounted from %s, NFS version %s", mount->source,
              version[0] ? version : "unknown");
    check_word("options", mount->super_options);
    for (size_t i = 0; i < sizeof(bad_options) / sizeof(bad_options[0]); i++) {
        if (!has(mount, bad_options[i].option))
            continue;
        check_say(CHECK_WARNING, "kernel", "mounted with %s: %s", bad_options[i].option,
                  bad_options[i].harm);
        check_remedy("mount %s", bad_options[i].remedy);
    }
    if (conf_mount_nfs(mount) == CONF_NFS_40) {
        check_say(CHECK_WARNING, "kernel",
                  "NFSv4.0 has no sessions: the library speaks another version than the kernel "
                  "here, finds files by name, and takes more time to open them");
        check_remedy("mount with vers=4.1 or later, or with vers=3");
    }
    check_sizes(mount);
}
