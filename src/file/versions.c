#include "file/versions.h"

#include "file/commit.h"
#include "ledger/uncommitted.h"

bool file_is_of_other_version(const struct file_mount *mount, const struct ledger_file *file)
{
    uint64_t differs = file->key.server ^ mount->plain_key;
    /* Each version may name the export in its own way: so the device tells, too. */
    return file->key.server == mount->other_key ||
           (file->key.device == mount->device && !(file->key.server & LEDGER_APART) &&
            differs & LEDGER_SECOND && !(differs & LEDGER_ADDRESS));
}

static bool settle(const struct file_mount *mount, dev_t device, ino_t number, bool *changed)
{
    struct ledger_file_key key = {.device = device, .inode = number};
    struct ledger_file file;
    uint32_t cursor = 0;
    bool settled = true;
    while (ledger_file_find(&key, &cursor, &file)) {
        if (ledger_file_uncommitted(&file) == 0 || !file_is_of_other_version(mount, &file))
            continue;
        *changed = true;
        (void)file_commit_known(&file);
        settled = settled && ledger_file_uncommitted(&file) == 0;
    }
    return settled;
}

bool file_versions_settle(const struct file_mount *mount, dev_t device, ino_t number, bool *changed)
{
    bool settled = settle(mount, device, number, changed);
    /* The kernel's mounts of two versions are two devices. */
    for (unsigned i = 0; i < file_mount_count(); i++) {
        const struct file_mount *other = file_mount_at(i);
        if (other->plain_key == mount->other_key && other->device != device)
            settled = settle(mount, other->device, number, changed) && settled;
    }
    return settled;
}
