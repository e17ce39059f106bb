#include "preload/preload.h"

/* The version of the library. `directnfs check --pid` reads it out of the file that is loaded. */
static const char version[] __attribute__((used, section(".directnfs.version"))) =
    DIRECTNFS_VERSION;

const char *const preload_version = version;
