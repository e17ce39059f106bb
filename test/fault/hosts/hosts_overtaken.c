/* See hosts_overtaken.h. */
#include "hosts_overtaken.h"

unsigned overtaken;

static unsigned overtaken_told[FILES][BLOCKS_MOST];

/* How many lines of this log are about bytes of the block? */
static unsigned log_count(const char *path, unsigned file, unsigned block)
{
    static const char text[] = "changed the file at the very moment at which ";
    uint64_t start = (uint64_t)block * files_of_hosts[file].size,
             end = start + files_of_hosts[file].size;
    char line[2048], name[64], mount[512];
    unsigned count = 0;
    FILE *in = fopen(path, "r");
    snprintf(name, sizeof name, "/%s: ", files_of_hosts[file].name);
    snprintf(mount, sizeof mount, "%s: ", journal->directory); /* it has no name for the file */
    while (in && fgets(line, sizeof line, in)) {
        unsigned long long bytes, offset;
        const char *at = strstr(line, name) || strstr(line, mount) ? strstr(line, text) : NULL;
        count += at &&
                 sscanf(at + sizeof text - 1, "%llu bytes at offset %llu", &bytes, &offset) == 2 &&
                 offset < end && start < offset + bytes;
    }
    if (in)
        fclose(in);
    return count;
}

bool is_overtaken(unsigned file, unsigned block)
{
    unsigned count = 0;
    for (unsigned i = 0; i < HOSTS; i++)
        count += hosts[i].log ? log_count(hosts[i].log, file, block) : 0;
    if (count <= overtaken_told[file][block])
        return false;
    overtaken_told[file][block] = count;
    atomic_store(&journal->blocks[file][block].synced, 0);
    atomic_store(&journal->blocks[file][block].written, 0);
    overtaken++;
    return true;
}
