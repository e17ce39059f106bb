#include "reach/flavors.h"

#include <stdio.h>

#include "nfs/v3/mount.h"

const char *reach_flavors_text(const uint32_t *flavors, uint32_t count,
                               char text[REACH_FLAVORS_BYTES])
{
    static const char *const kerberos[] = {"krb5", "krb5i", "krb5p"};
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < REACH_FLAVORS_BYTES; i++) {
        const char *comma = used > 0 ? ", " : "";
        char *at = text + used;
        size_t room = REACH_FLAVORS_BYTES - used;
        if (flavors[i] == MOUNT3_AUTH_NONE || flavors[i] == MOUNT3_AUTH_SYS)
            used += (size_t)snprintf(at, room, "%s%s", comma,
                                     flavors[i] == MOUNT3_AUTH_SYS ? "sys" : "none");
        else if (flavors[i] - MOUNT3_KRB5 < sizeof(kerberos) / sizeof(kerberos[0]))
            used += (size_t)snprintf(at, room, "%s%s", comma, kerberos[flavors[i] - MOUNT3_KRB5]);
        else
            used += (size_t)snprintf(at, room, "%sflavor %u", comma, flavors[i]);
    }
    return text;
}

const char *reach_flavors_ask(const struct nfs_client *client, const char *directory,
                              char text[REACH_FLAVORS_BYTES])
{
    uint32_t flavors[NFS_FLAVORS_MAX], count = 0;
    if (!client->version->flavors ||
        client->version->flavors(client, directory, flavors, &count) != 0)
        count = 0;
    return reach_flavors_text(flavors, count, text);
}
