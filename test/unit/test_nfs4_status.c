/* What statuses of NFSv4.1 mean. The numbers are those of RFC 8881 section 15.1, written down once
 * more. */
#include <errno.h>

#include "nfs/v4/status.h"
#include "nfs/v4/types.h"
#include "unit.h"

UNIT_TEST(statuses_mean_what_posix_calls_them)
{
    static const struct {
        uint32_t status;
        int error;
    } meanings[] = {{0, 0},
                    {1, -EPERM},
                    {2, -ENOENT},
                    {13, -EACCES},
                    {28, -ENOSPC},
                    {69, -EDQUOT},
                    {27, -EFBIG},
                    {30, -EROFS},
                    {70, -ESTALE},
                    {10014, -ESTALE},
                    {10001, -ESTALE},
                    {10019, -EREMOTE},
                    {10021, -EPROTONOSUPPORT},
                    {10017, -EBUSY},
                    {10006, -EIO},
                    {10025, -EIO},
                    {12345, -EIO},
                    {UINT32_MAX, -EIO}};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        assert_int_equal(nfs4_status_errno(meanings[i].status), meanings[i].error);
}

UNIT_TEST(statuses_have_their_names)
{
    assert_string_equal(nfs4_status_name(NFS4_OK), "NFS4_OK");
    assert_string_equal(nfs4_status_name(10052), "NFS4ERR_BADSESSION");
    assert_string_equal(nfs4_status_name(12345), "an unknown status");
}

UNIT_TEST(what_is_not_the_end_of_a_call)
{
    assert_int_equal(nfs4_status_reaction(NFS4_OK, true), NFS4_DONE);
    assert_int_equal(nfs4_status_reaction(10008, true), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_DELAY, false), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(10013, false), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(10068, true), NFS4_AGAIN);
    assert_int_equal(nfs4_status_reaction(10055, true), NFS4_BIND);
    static const uint32_t lost[] = {10052, 10078, 10022, 10053, 10063, 10076};
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        assert_int_equal(nfs4_status_reaction(lost[i], true), NFS4_RENEW);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_SEQ_MISORDERED, false), NFS4_DONE);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_NOSPC, false), NFS4_DONE);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
