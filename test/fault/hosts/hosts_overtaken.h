/*
 * What a host said on its log of data that it sent while the other one changed the file: of both,
 * the server has these bytes. NFSv3 has no WRITE that the server refuses then, and what the other
 * host wrote is lost; that it is told is all that can be asked for (src/file/stray.h).
 */
#ifndef FAULT_HOSTS_OVERTAKEN_H
#define FAULT_HOSTS_OVERTAKEN_H

#include "hosts_processes.h"

static unsigned overtaken; /* blocks */

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

/* Was it told, and not before, that what one of the hosts wrote to the block may be lost? Then
 * nothing that was written there until now is expected any more. */
static bool is_overtaken(unsigned file, unsigned block)
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

#endif
