/* What statuses of NFSv4.1 mean. */
#include <errno.h>

#include "nfs/nfs4_status.h"
#include "nfs/nfs4_types.h"
#include "unit.h"

UNIT_TEST(statuses_mean_what_posix_calls_them)
{
    static const struct {
        uint32_t status;
        int error;
    } meanings[] = {{NFS4_OK, 0},
                    {NFS4ERR_PERM, -EPERM},
                    {NFS4ERR_NOENT, -ENOENT},
                    {NFS4ERR_ACCESS, -EACCES},
                    {NFS4ERR_NOSPC, -ENOSPC},
                    {NFS4ERR_DQUOT, -EDQUOT},
                    {NFS4ERR_FBIG, -EFBIG},
                    {NFS4ERR_ROFS, -EROFS},
                    {NFS4ERR_STALE, -ESTALE},
                    {NFS4ERR_FHEXPIRED, -ESTALE},
                    {NFS4ERR_BADHANDLE, -ESTALE},
                    {NFS4ERR_MOVED, -EREMOTE},
                    {NFS4ERR_MINOR_VERS_MISMATCH, -EPROTONOSUPPORT},
                    {NFS4ERR_CLID_INUSE, -EBUSY},
                    {NFS4ERR_SERVERFAULT, -EIO},
                    {NFS4ERR_BAD_STATEID, -EIO},
                    {12345, -EIO},
                    {UINT32_MAX, -EIO}};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        assert_int_equal(nfs4_status_errno(meanings[i].status), meanings[i].error);
}

UNIT_TEST(statuses_have_their_names)
{
    assert_string_equal(nfs4_status_name(NFS4_OK), "NFS4_OK");
    assert_string_equal(nfs4_status_name(NFS4ERR_BADSESSION), "NFS4ERR_BADSESSION");
    assert_string_equal(nfs4_status_name(12345), "an unknown status");
}

UNIT_TEST(what_is_not_the_end_of_a_call)
{
    assert_int_equal(nfs4_status_reaction(NFS4_OK, true), NFS4_DONE);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_DELAY, true), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_DELAY, false), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_GRACE, false), NFS4_LATER);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_RETRY_UNCACHED_REP, true), NFS4_AGAIN);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_CONN_NOT_BOUND_TO_SESSION, true), NFS4_BIND);
    static const uint32_t lost[] = {NFS4ERR_BADSESSION,     NFS4ERR_DEADSESSION,
                                    NFS4ERR_STALE_CLIENTID, NFS4ERR_BADSLOT,
                                    NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY};
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        assert_int_equal(nfs4_status_reaction(lost[i], true), NFS4_RENEW);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_SEQ_MISORDERED, false), NFS4_DONE);
    assert_int_equal(nfs4_status_reaction(NFS4ERR_NOSPC, false), NFS4_DONE);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
