/* nfsstat3 to errno, and the names of procedures. The table is RFC 1813 section 2.6, written down
 * once more. */
#include <errno.h>
#include <string.h>
#include "nfs/v3/status.h"
#include "unit.h"

static const struct {
    uint32_t status;
    int error;
} table[] = {
    {0, 0},         {1, -EPERM},         {2, -ENOENT},     {5, -EIO},        {6, -ENXIO},
    {13, -EACCES},  {17, -EEXIST},       {18, -EXDEV},     {19, -ENODEV},    {20, -ENOTDIR},
    {21, -EISDIR},  {22, -EINVAL},       {27, -EFBIG},     {28, -ENOSPC},    {30, -EROFS},
    {31, -EMLINK},  {63, -ENAMETOOLONG}, {66, -ENOTEMPTY}, {69, -EDQUOT},    {70, -ESTALE},
    {71, -EREMOTE}, {10001, -ESTALE},    {10002, -EIO},    {10003, -EIO},    {10004, -EOPNOTSUPP},
    {10005, -EIO},  {10006, -EIO},       {10007, -EIO},    {10008, -EAGAIN},
};

UNIT_TEST(every_status_has_its_errno)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(nfs3_status_errno(table[i].status), table[i].error);
}

UNIT_TEST(a_status_outside_the_standard_is_eio)
{
    static const uint32_t unknown[] = {3, 4, 64, 72, 10000, 10009, 0x7fffffff, 0xffffffff};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_int_equal(nfs3_status_errno(unknown[i]), -EIO);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
