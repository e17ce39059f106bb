/* Which flavors of security a server takes: for people. */
#ifndef REACH_FLAVORS_H
#define REACH_FLAVORS_H

#include "nfs/nfs.h"

enum { REACH_FLAVORS_BYTES = 96 };

/* "krb5, krb5i" of the numbers that MOUNT tells (RFC 5531 section 8.2, RFC 2623 section 2.2.3).
 * Returns the text. */
const char *reach_flavors_text(const uint32_t *flavors, uint32_t count,
                               char text[REACH_FLAVORS_BYTES]);

/*
 * After a server of NFSv4.1 refused a call about the directory with -EKEYREJECTED: asks it which
 * flavors it takes there, within the client's time. An answer that anybody could have made: it is
 * shown, and nothing is done by it. Empty: it does not tell. Returns the text.
 */
const char *reach_flavors_ask(const struct nfs_client *client, const char *directory,
                              char text[REACH_FLAVORS_BYTES]);

#endif
