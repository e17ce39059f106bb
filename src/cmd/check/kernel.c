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

void check_protection(const struct conf_server *conf, const struct check_root *root)
{
    const struct conf_mount_protection *has = &root->kernel.protection;
    enum conf_security security = reach_security(root->export->security, &root->kernel);
    enum conf_tls tls = reach_tls(conf->tls, &root->kernel);
    const char *text = reach_protection_text(security, tls == CONF_TLS_REQUIRE);
    struct reach_kernel_mount ours = {.protection = {security, tls == CONF_TLS_REQUIRE, false}};
    check_word("security", text);
    if (has->security == CONF_SECURITY_AUTO) { /* no mount of NFS, or one that is not known */
        check_say(CHECK_INFO, "security", "%s", text);
        return;
    }
    const char *kernel = reach_protection_text(has->security, has->tls);
    if (!reach_kernel_covers(&root->kernel, security, tls)) {
        check_say(CHECK_WARNING, "security",
                  "%s; the kernel's mount has %s only: names, attributes, streams of stdio and "
                  "standard descriptors pass by it; files that the library cannot serve are "
                  "refused (EIO), and cannot be mapped (ENODEV)",
                  text, kernel);
        check_remedy("mount with the same protection (sec=, xprtsec=)");
    } else if (!reach_kernel_covers(&ours, has->security,
                                    has->tls ? CONF_TLS_REQUIRE : CONF_TLS_NO)) {
        check_say(CHECK_WARNING, "security",
                  "%s, as %s:%u says; the kernel's mount has %s: files that the library serves are "
                  "protected less than those of the kernel",
                  text, root->export->at.file, root->export->at.line, kernel);
        check_remedy("take `security` and `tls` out of the stanza: then they are as the mount's");
    } else {
        check_say(CHECK_INFO, "security", "%s, as the kernel's mount", text);
    }
}
