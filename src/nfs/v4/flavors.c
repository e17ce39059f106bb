/* Which flavors of security a server takes: SECINFO (RFC 8881 section 18.29) and SECINFO_NO_NAME
 * (section 18.45). */
#include "nfs/v4/xdr.h"

#include <string.h>

#include "nfs/v3/mount.h"

enum {
    FLAVORS_MAX = 256, /* in a reply: more are garbage */
    GSS = 6,           /* RPCSEC_GSS: its entry has more than a number, */
    SERVICES = 3       /* the last of which is a service: RFC 2203 section 5.3.1 */
};

static const uint8_t kerberos[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02};

void nfs4_put_secinfo(struct xdr_writer *w, const char *name, size_t length)
{
    nfs4_put_op(w, name ? NFS4_OP_SECINFO : NFS4_OP_SECINFO_NO_NAME);
    if (name)
        xdr_put_opaque(w, name, (uint32_t)length);
    else
        xdr_put_u32(w, 0); /* SECINFO_STYLE4_CURRENT_FH */
}

/* rpcsec_gss_info. Of Kerberos the number that MOUNT tells (RFC 2623 section 2.2.3). */
static uint32_t get_gss(struct xdr_reader *r)
{
    uint32_t length;
    const uint8_t *mechanism = xdr_get_opaque(r, NFS4_OPAQUE_MAX, &length);
    xdr_get_u32(r); /* quality of protection */
    uint32_t service = xdr_get_u32(r);
    bool is_kerberos = !r->bad && length == sizeof(kerberos) &&
                       memcmp(mechanism, kerberos, length) == 0 && service >= 1 &&
                       service <= SERVICES;
    return is_kerberos ? MOUNT3_KRB5 + service - 1 : GSS;
}

void nfs4_get_secinfo(struct xdr_reader *r, uint32_t *flavors, uint32_t *count)
{
    uint32_t entries = xdr_get_u32(r);
    *count = 0;
    if (entries > FLAVORS_MAX)
        xdr_reader_fail(r);
    for (uint32_t i = 0; i < entries && !r->bad; i++) {
        uint32_t flavor = xdr_get_u32(r);
        if (flavor == GSS)
            flavor = get_gss(r);
        if (!r->bad && *count < NFS_FLAVORS_MAX)
            flavors[(*count)++] = flavor;
    }
}
