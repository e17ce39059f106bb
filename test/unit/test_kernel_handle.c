/* The server's handle in a handle of the kernel's NFS client: every field is looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "reach/kernel.h"
#include "unit.h"

enum {
    LENGTH = 21,
    PADDED = 12 + 2 + 21 + 1,
    NUMBER_OFFSET = 0,
    TYPE_OFFSET = 8,
    LENGTH_OFFSET = 12
};

static const uint64_t number = UINT64_C(0x1122334455667788);

union told {
    struct file_handle handle;
    uint8_t room[sizeof(struct file_handle) + 2 * MAX_HANDLE_SZ]; /* more than the kernel tells */
};

/* As fs/nfs/export.c of Linux makes it for a regular file: words, and a padded server's handle. */
static void tell(union told *told, uint16_t length)
{
    uint32_t words[3] = {(uint32_t)(number >> 32), (uint32_t)number, S_IFREG};
    uint8_t *to = told->handle.f_handle;
    memset(told, 0, sizeof(*told));
    memcpy(to, words, sizeof(words));
    memcpy(to + LENGTH_OFFSET, &length, sizeof(length));
    for (int i = 0; i < length; i++)
        to[LENGTH_OFFSET + 2 + i] = (uint8_t)(i + 1);
    told->handle.handle_bytes = (LENGTH_OFFSET + 2 + length + 3u) / 4 * 4;
    told->handle.handle_type = (int)told->handle.handle_bytes / 4;
}

static bool decodes(const union told *told, struct nfs_fh *fh)
{
    return reach_kernel_decode(&told->handle, S_IFREG | 0644, number, fh);
}

UNIT_TEST(the_servers_handle_is_found)
{
    union told told;
    struct nfs_fh fh;
    for (uint16_t length = 1; length <= NFS_FH_MAX; length++) {
        tell(&told, length);
        assert_true(decodes(&told, &fh));
        assert_int_equal(fh.len, length);
        for (int i = 0; i < length; i++)
            assert_int_equal(fh.data[i], i + 1);
    }
}

UNIT_TEST(one_wrong_field_makes_it_no_handle)
{
    union told told;
    struct nfs_fh fh;
    static const int wrong[] = {
        NUMBER_OFFSET,   NUMBER_OFFSET + 3, NUMBER_OFFSET + 4, NUMBER_OFFSET + 7, TYPE_OFFSET,
        TYPE_OFFSET + 1, TYPE_OFFSET + 3,   LENGTH_OFFSET,     LENGTH_OFFSET + 1, PADDED - 1};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tell(&told, LENGTH);
        told.handle.f_handle[wrong[i]] ^= 0x40;
        assert_false(decodes(&told, &fh));
    }
    for (int difference = -4; difference <= 4; difference += 8) {
        tell(&told, LENGTH);
        told.handle.handle_bytes = (unsigned)((int)told.handle.handle_bytes + difference);
        assert_false(decodes(&told, &fh));
        told.handle.handle_type += difference / 4; /* consistent, but too short or too long */
        assert_false(decodes(&told, &fh));
        tell(&told, LENGTH);
        told.handle.handle_type += difference / 4;
        assert_false(decodes(&told, &fh));
    }
}

UNIT_TEST(lengths_that_cannot_be_are_refused)
{
    union told told;
    struct nfs_fh fh;
    tell(&told, 0);
    assert_false(decodes(&told, &fh));
    tell(&told, NFS_FH_MAX + 1);
    assert_false(decodes(&told, &fh));
    tell(&told, LENGTH);
    for (unsigned size = 0; size < LENGTH_OFFSET + 2; size++) {
        told.handle.handle_bytes = size;
        told.handle.handle_type = (int)size / 4;
        assert_false(decodes(&told, &fh));
    }
}

UNIT_TEST(it_is_of_the_file_that_is_open)
{
    union told told;
    struct nfs_fh fh;
    tell(&told, LENGTH);
    assert_false(reach_kernel_decode(&told.handle, S_IFREG | 0644, number + 1, &fh));
    assert_false(reach_kernel_decode(&told.handle, S_IFDIR | 0755, number, &fh));
}

/* That a kernel NFS mount is one is shown in a guest: test/vm/calls. */
UNIT_TEST(what_is_no_nfs_is_told_by_the_table_of_mounts)
{
    struct stat shm;
    struct reach_kernel_mount kernel;
    assert_int_equal(stat("/dev/shm", &shm), 0);
    assert_int_equal(major(shm.st_dev), 0);
    assert_int_equal(reach_kernel_mount_of(shm.st_dev, &kernel), 0);
    assert_int_equal(reach_kernel_mount_of(makedev(0, 0xfffff), &kernel), -ENOENT);
    assert_int_equal(reach_kernel_mount_of(makedev(8, 1), &kernel), 0); /* a disk */
}

int main(void)
{
    return unit_run(NULL, NULL);
}
