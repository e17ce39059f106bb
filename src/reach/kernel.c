#include "reach/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "config/mountinfo.h"
#include "config/source.h"
#include "sys/alloc.h"
#include "sys/proc.h"

enum { NFS_PORT = 2049, STATS_MOST = 64 << 20 };

/* The kernel's handle, in the host's byte order. It is padded to a multiple of 4 bytes, and its
 * handle_type is its length in those units. */
struct kernel_handle {
    uint32_t number_high, number_low; /* the file id */
    uint32_t type;                    /* S_IFMT */
    uint16_t length;                  /* of the server's handle, in bytes */
    uint8_t data[];
} __attribute__((packed));

bool reach_kernel_decode(const struct file_handle *handle, mode_t type, uint64_t number,
                         struct nfs_fh *fh)
{
    struct kernel_handle head;
    size_t size = handle->handle_bytes, unit = sizeof(uint32_t);
    const uint8_t *data = handle->f_handle + sizeof(head);
    if (size < sizeof(head))
        return false;
    memcpy(&head, handle->f_handle, sizeof(head));
    size_t needed = sizeof(head) + head.length, padded = (needed + unit - 1) / unit * unit;
    if (size != padded || handle->handle_type != (int)(size / unit) || head.length == 0 ||
        head.length > sizeof(fh->data) || head.type != (type & S_IFMT) ||
        ((uint64_t)head.number_high << 32 | head.number_low) != number)
        return false;
    for (size_t i = needed; i < padded; i++) {
        if (handle->f_handle[i] != 0)
            return false;
    }
    memset(fh, 0, sizeof(*fh));
    fh->len = head.length;
    memcpy(fh->data, data, head.length);
    return true;
}

int reach_kernel_handle(int fd, const char *path, const struct stat *status, struct nfs_fh *fh)
{
    union {
        struct file_handle handle;
        uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } told = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount_id;
    long result = sys_call5(SYS_name_to_handle_at, fd, path, &told.handle, &mount_id,
                            AT_EMPTY_PATH | AT_SYMLINK_FOLLOW);
    if (result != 0)
        return (int)result;
    return reach_kernel_decode(&told.handle, status->st_mode, status->st_ino, fh) ? 0 : -EBADMSG;
}

/* The first mount of the device; NULL: there is none. */
static const struct conf_mount *mount_of(const struct conf_mountinfo *info, dev_t device)
{
    for (size_t i = 0; i < info->count; i++) {
        if (makedev(info->mounts[i].major, info->mounts[i].minor) == device)
            return &info->mounts[i];
    }
    return NULL;
}

static void learn(const struct conf_mount *mount, struct reach_kernel_mount *kernel)
{
    char value[32];
    const char *options = mount->super_options;
    enum conf_nfs version = conf_mount_nfs(mount);
    kernel->speaks = version == CONF_NFS_3    ? &nfs_version3
                     : version == CONF_NFS_41 ? &nfs_version41
                                              : NULL;
    kernel->close_to_open = !conf_mount_option(options, "nocto", NULL, 0);
    kernel->protection = conf_mount_protection(mount);
    conf_mount_option(options, "addr", kernel->address, sizeof(kernel->address));
    int port = conf_mount_option(options, "port", value, sizeof(value)) ? atoi(value) : NFS_PORT;
    kernel->port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : NFS_PORT;
}

int reach_kernel_mount_in(const struct conf_mountinfo *info, dev_t device,
                          struct reach_kernel_mount *kernel)
{
    *kernel = (struct reach_kernel_mount){.speaks = NULL};
    if (major(device) != 0) /* a disk has it */
        return 0;
    const struct conf_mount *mount = mount_of(info, device);
    int result = !mount ? -ENOENT : conf_mount_nfs(mount) != CONF_NFS_NONE;
    if (result == 1)
        learn(mount, kernel);
    return result;
}

int reach_kernel_mount_of(dev_t device, struct reach_kernel_mount *kernel)
{
    struct conf_mountinfo info = {0};
    int result = major(device) == 0 ? conf_mountinfo_load(&info, "/proc/self/mountinfo") : 0;
    *kernel = (struct reach_kernel_mount){.speaks = NULL};
    if (result == 0)
        result = reach_kernel_mount_in(&info, device, kernel);
    conf_mountinfo_free(&info);
    return result;
}

/* Looks at each place where the device is mounted. */
static bool has_layouts(const struct conf_mountinfo *info, dev_t device, const char *text,
                        size_t length, char type[REACH_LAYOUT_BYTES])
{
    char *copy = sys_alloc(length + 1);
    bool found = false;
    for (size_t i = 0; copy && i < info->count && !found; i++) {
        const struct conf_mount *mount = &info->mounts[i];
        if (makedev(mount->major, mount->minor) != device)
            continue;
        memcpy(copy, text, length);
        copy[length] = '\0';
        found = conf_mount_layout(copy, mount->mount_point, type, REACH_LAYOUT_BYTES);
    }
    sys_free(copy);
    return found;
}

bool reach_kernel_has_layouts(dev_t device, char type[REACH_LAYOUT_BYTES])
{
    struct conf_mountinfo info;
    char *text = NULL;
    size_t length = 0;
    bool found = false;
    int fd = sys_proc_open("self/mountstats", O_RDONLY);
    if (fd < 0)
        return false;
    if (conf_read_all(fd, STATS_MOST, &text, &length) == 0 &&
        conf_mountinfo_load(&info, "/proc/self/mountinfo") == 0) {
        found = has_layouts(&info, device, text, length, type);
        conf_mountinfo_free(&info);
    }
    sys_free(text);
    sys_close(fd);
    return found;
}

const struct nfs_version *reach_version(enum conf_version wanted,
                                        const struct reach_kernel_mount *kernel)
{
    if (wanted == CONF_VERSION_AUTO)
        return kernel->speaks ? kernel->speaks : &nfs_version3;
    return wanted == CONF_VERSION_41 ? &nfs_version41 : &nfs_version3;
}

enum conf_security reach_security(enum conf_security wanted,
                                  const struct reach_kernel_mount *kernel)
{
    if (wanted == CONF_SECURITY_AUTO)
        wanted = kernel->protection.security;
    return wanted == CONF_SECURITY_AUTO ? CONF_SECURITY_SYS : wanted;
}

enum conf_tls reach_tls(enum conf_tls wanted, const struct reach_kernel_mount *kernel)
{
    if (wanted != CONF_TLS_AUTO)
        return wanted;
    return kernel->protection.tls ? CONF_TLS_REQUIRE : CONF_TLS_NO;
}

const char *reach_protection_text(enum conf_security security, bool tls)
{
    static const char *const plain[] = {"sys", "sys", "krb5", "krb5i", "krb5p"};
    static const char *const with_tls[] = {"sys+tls", "sys+tls", "krb5+tls", "krb5i+tls",
                                           "krb5p+tls"};
    return (tls ? with_tls : plain)[security];
}

bool reach_kernel_covers(const struct reach_kernel_mount *kernel, enum conf_security security,
                         enum conf_tls tls)
{
    const struct conf_mount_protection *has = &kernel->protection;
    bool hidden = has->tls || has->security == CONF_SECURITY_KRB5P;
    enum conf_security strongest =
        has->tls && has->security >= CONF_SECURITY_KRB5 ? CONF_SECURITY_KRB5P : has->security;
    return strongest >= security && (tls != CONF_TLS_REQUIRE || hidden);
}
