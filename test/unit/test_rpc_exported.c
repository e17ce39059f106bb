/* A program that exports a function of a Kerberos of its own: libgssapi_krb5.so.2 would call it. */
#include <dlfcn.h>
#include <string.h>

#include <gssapi/gssapi.h>

#include "rpc/secure/gss.h"
#include "sys/foreign.h"
#include "unit.h"

/* The linker exports it, as the program is linked with libgssapi_krb5.so.2, which has it too. */
__attribute__((visibility("default"))) OM_uint32 gss_release_buffer(OM_uint32 *minor,
                                                                    gss_buffer_t buffer)
{
    *minor = 0;
    buffer->length = 0; /* and its memory is lost */
    return GSS_S_COMPLETE;
}

UNIT_TEST(a_program_that_exports_another_kerberos_gets_none)
{
    OM_uint32 minor;
    gss_OID_set mechanisms;
    struct rpc_gss_fault fault;
    /* It is linked with that library. */
    assert_int_equal(gss_indicate_mechs(&minor, &mechanisms), GSS_S_COMPLETE);
    gss_release_oid_set(&minor, &mechanisms);
    assert_false(rpc_gss_load(&fault));
    assert_int_equal(fault.why, RPC_GSS_NO_LIBRARY);
    assert_string_equal(fault.text,
                        "the program exports the function gss_release_buffer of another Kerberos");
    assert_false(rpc_gss_is_loaded());
}

/* The program would take it for one of its own dlopen() or dlsym(). */
UNIT_TEST(a_look_for_another_library_leaves_no_message)
{
    assert_false(sys_foreign_is_replaced("nobody_defines_this", NULL));
    assert_null(dlerror());
}

int main(void)
{
    return unit_run(NULL, NULL);
}
