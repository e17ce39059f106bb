/* A program that exports a function of an OpenSSL of its own: libssl.so.3 would call it. */
#include <errno.h>
#include <string.h>

#include "net/tls/tls.h"
#include "unit.h"

/* The linker exports it, as the program is linked with libcrypto.so.3, which has it too. */
__attribute__((visibility("default"))) void *OSSL_LIB_CTX_new(void);
unsigned long OpenSSL_version_num(void);

void *OSSL_LIB_CTX_new(void)
{
    return NULL;
}

UNIT_TEST(a_program_that_exports_another_openssl_gets_no_tls)
{
    const char *why = NULL;
    assert_true(OpenSSL_version_num() != 0); /* it is linked with that library */
    assert_int_equal(net_tls_load(&why), -ELIBACC);
    assert_non_null(strstr(why, "exports the function OSSL_LIB_CTX_new"));
    assert_null(net_tls_version());
}

int main(void)
{
    return unit_run(NULL, NULL);
}
