/* The functions of the GSS API that are used: for gss.c, and for tests that have their own. */
#ifndef RPC_SECURE_API_H
#define RPC_SECURE_API_H

#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>

/* clang-format off */
#define RPC_GSS_FUNCTIONS(X)                                                                \
    X(acquire_cred_from) X(release_cred) X(inquire_cred) X(import_name) X(display_name)     \
    X(release_name) X(init_sec_context) X(delete_sec_context) X(release_buffer)             \
    X(display_status) X(get_mic) X(verify_mic) X(wrap_iov) X(wrap_iov_length) X(unwrap_iov)

struct rpc_gss_api {
#define RPC_GSS_MEMBER(name) __typeof__(gss_##name) *name;
    RPC_GSS_FUNCTIONS(RPC_GSS_MEMBER)
};
/* clang-format on */

/* From now on these functions are called, and no library is loaded: for tests. */
void rpc_gss_use(const struct rpc_gss_api *api);

#endif
