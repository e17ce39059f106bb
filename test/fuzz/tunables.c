/*
 * directnfs.conf. The input is its text. Whatever it says, every tunable is within its range; a
 * text with a mistake has a printable sentence for it.
 */
#include <errno.h>
#include <string.h>

#include "config/tunables.h"
#include "fuzz.h"

static void within(double value, double least, double most)
{
    must(value >= least && value <= most);
}

static void check_size(int size)
{
    must(size == 0 || (size >= 4096 && size <= 1048576));
}

static void check_ranges(const struct conf_tunables *t)
{
    const double mib = 1048576, tib = mib * mib;
    within(t->connections, 1, 64);
    check_size(t->rsize);
    check_size(t->wsize);
    within(t->actimeo, 0, 3600);
    within(t->stability, CONF_STABILITY_UNSTABLE, CONF_STABILITY_STABLE);
    within((double)t->uncommitted_max, 16 * mib, tib);
    within((double)t->uncommitted_file_max, mib, tib);
    within(t->privileged_port, CONF_PRIVILEGED_PORT_AUTO, CONF_PRIVILEGED_PORT_NO);
    within(t->retransmit_timeout, 1, 600);
    within(t->reconnect_max, 1, 60);
    within(t->path_timeout, 0, 600);
    within(t->failover_hold, 0, 600);
    within(t->silence_warning, 0, 600);
    within(t->soft_timeout, 0, 86400);
    within(t->raw_io_uring, CONF_RAW_IO_URING_REFUSE, CONF_RAW_IO_URING_KERNEL);
    within(t->raw_calls, CONF_RAW_CALLS_KERNEL, CONF_RAW_CALLS_SERVE);
    within(t->log_level, LOG_LEVEL_ERROR, LOG_LEVEL_DEBUG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    char line[1024];
    if (memmem(data, size, "@include", 8)) /* it may name a file of which reading never ends */
        return -1;
    memset(&tunables, 0x5a, sizeof(tunables));
    int result = conf_tunables_parse(&tunables, "/nowhere/conf", (const char *)data, size, &d);
    must(result == 0 || result == -EINVAL);
    must((result == 0) == (d.errors == 0));
    check_ranges(&tunables);
    for (size_t i = 0; i < d.count; i++)
        must_be_printable(conf_diagnostic_format(&d.list[i], line, sizeof(line)), sizeof(line));
    conf_diagnostics_free(&d);
    return 0;
}
