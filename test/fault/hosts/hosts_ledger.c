/* See hosts_ledger.h. */
#include "hosts_ledger.h"

static const struct ledger_shared *ledgers[HOSTS];

/* False: there is none yet. */
static bool ledger_map_of(unsigned host)
{
    char path[512];
    snprintf(path, sizeof path, "%s/registry", hosts[host].run);
    int fd = ledgers[host] ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof(struct ledger_shared), PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            die("%s: %s", path, strerror(errno));
        ledgers[host] = map;
        close(fd);
    }
    return ledgers[host] != NULL;
}

uint64_t ledger_bytes(unsigned host)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; ledger_map_of(host) && i < LEDGER_STRIPES; i++)
        bytes += atomic_load(&ledgers[host]->stripes[i].dirty) +
                 atomic_load(&ledgers[host]->stripes[i].uncommitted);
    return bytes;
}
