/* nfsstat3 to errno, and the names. The table is RFC 1813 section 2.6, written down once more. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "nfs/nfs3_status.h"

static const struct {
    uint32_t status;
    int error;
    const char *name;
} table[] = {
    {0, 0, "NFS3_OK"},
    {1, -EPERM, "NFS3ERR_PERM"},
    {2, -ENOENT, "NFS3ERR_NOENT"},
    {5, -EIO, "NFS3ERR_IO"},
    {6, -ENXIO, "NFS3ERR_NXIO"},
    {13, -EACCES, "NFS3ERR_ACCES"},
    {17, -EEXIST, "NFS3ERR_EXIST"},
    {18, -EXDEV, "NFS3ERR_XDEV"},
    {19, -ENODEV, "NFS3ERR_NODEV"},
    {20, -ENOTDIR, "NFS3ERR_NOTDIR"},
    {21, -EISDIR, "NFS3ERR_ISDIR"},
    {22, -EINVAL, "NFS3ERR_INVAL"},
    {27, -EFBIG, "NFS3ERR_FBIG"},
    {28, -ENOSPC, "NFS3ERR_NOSPC"},
    {30, -EROFS, "NFS3ERR_ROFS"},
    {31, -EMLINK, "NFS3ERR_MLINK"},
    {63, -ENAMETOOLONG, "NFS3ERR_NAMETOOLONG"},
    {66, -ENOTEMPTY, "NFS3ERR_NOTEMPTY"},
    {69, -EDQUOT, "NFS3ERR_DQUOT"},
    {70, -ESTALE, "NFS3ERR_STALE"},
    {71, -EREMOTE, "NFS3ERR_REMOTE"},
    {10001, -ESTALE, "NFS3ERR_BADHANDLE"},
    {10002, -EIO, "NFS3ERR_NOT_SYNC"},
    {10003, -EIO, "NFS3ERR_BAD_COOKIE"},
    {10004, -EOPNOTSUPP, "NFS3ERR_NOTSUPP"},
    {10005, -EIO, "NFS3ERR_TOOSMALL"},
    {10006, -EIO, "NFS3ERR_SERVERFAULT"},
    {10007, -EIO, "NFS3ERR_BADTYPE"},
    {10008, -EAGAIN, "NFS3ERR_JUKEBOX"},
};

static void every_status_has_its_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(nfs3_status_errno(table[i].status), table[i].error);
}

static void every_status_has_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(nfs3_status_name(table[i].status), table[i].name);
}

static void a_status_outside_the_standard_is_eio(void **state)
{
    static const uint32_t unknown[] = {3, 4, 64, 72, 10000, 10009, 0x7fffffff, 0xffffffff};

    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(nfs3_status_errno(unknown[i]), -EIO);
        assert_string_equal(nfs3_status_name(unknown[i]), "NFS3ERR_unknown");
    }
}

static void every_procedure_has_its_name(void **state)
{
    static const char *const names[] = {
        "NULL",    "GETATTR",     "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",   "WRITE",
        "CREATE",  "MKDIR",       "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
        "READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT"};

    (void)state;
    for (uint32_t i = 0; i < 22; i++)
        assert_string_equal(nfs3_proc_name(i), names[i]);
    assert_string_equal(nfs3_proc_name(22), "unknown");
    assert_string_equal(nfs3_proc_name(0xffffffff), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_errno),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(a_status_outside_the_standard_is_eio),
        cmocka_unit_test(every_procedure_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
