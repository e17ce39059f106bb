#include "durable/versions.h"

#include "durable/commit.h"
#include "durable/sync.h"
#include "ledger/uncommitted.h"
#include "mount/contact.h"
#include "mount/mounts.h"

static bool settle(const struct mount *mount, dev_t device, ino_t number, bool *changed)
{
    struct ledger_file_key key = {.device = device, .inode = number};
    struct ledger_file file;
    uint32_t cursor = 0;
    bool settled = true;
    while (ledger_file_find(&key, &cursor, &file)) {
        if (ledger_file_uncommitted(&file) == 0 || !mount_is_other_version(mount, &file))
            continue;
        *changed = true;
        (void)durable_commit_known(&file);
        settled = settled && ledger_file_uncommitted(&file) == 0;
    }
    return settled;
}

bool durable_versions_settle(const struct mount *mount, dev_t device, ino_t number, bool *changed)
{
    bool settled = settle(mount, device, number, changed);
    /* The kernel's mounts of two versions are two devices. */
    for (unsigned i = 0; i < mounts_count(); i++) {
        const struct mount *other = mounts_at(i);
        if (other->plain_key == mount->other_key && other->device != device)
            settled = settle(mount, other->device, number, changed) && settled;
    }
    return settled;
}
