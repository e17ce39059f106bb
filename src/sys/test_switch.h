/*
 * Test-only switches. Each takes one protection of the data away, so that test/fault can show that
 * it finds the loss. They exist only in a build of their own (make TEST_SWITCHES=1). There,
 * DIRECTNFS_TEST_UNSAFE names them, separated by commas. In every other build the answer is a
 * constant.
 */
#ifndef SYS_TEST_SWITCH_H
#define SYS_TEST_SWITCH_H

#include <stdbool.h>

enum sys_test_switch {
    SYS_TEST_VERIFIER = 1,  /* "verifier": a COMMIT vouches for writes with any verifier */
    SYS_TEST_HOLD = 2,      /* "hold": no write waits for one of unknown fate */
    SYS_TEST_XID = 4,       /* "xid": a call that is sent again gets a new xid */
    SYS_TEST_DISTRUST = 8,  /* "distrust": after a failed COMMIT, the next one vouches for all */
    SYS_TEST_CONFLICT = 16, /* "conflict": lost data is written over what others wrote since */
    SYS_TEST_WORLDS = 32,   /* "worlds": a file that the engine serves stays with the engine */
    SYS_TEST_ARRIVED = 64,  /* "arrived": a file goes to the kernel with data still in the ledger */
    SYS_TEST_PINS = 128,    /* "pins": a file comes back while a process needs the kernel for it */
    SYS_TEST_APPEND = 256,  /* "append": a process appends without waiting for its turn */
    SYS_TEST_AHEAD =
        512, /* "ahead": data that was read ahead is given out, whatever was written since */
    SYS_TEST_ORPHANS = 1024,   /* "orphans": a process that dies takes its dirty data along */
    SYS_TEST_DIRTY = 2048,     /* "dirty": a read asks the server, though there is dirty data */
    SYS_TEST_OTHERS = 4096,    /* "others": fsync sends only what its own process wrote */
    SYS_TEST_TOLD = 8192,      /* "told": no fsync hears that dirty data was refused */
    SYS_TEST_PROMISED = 16384, /* "promised": data that was sent, and failed, is not dirty again */
    SYS_TEST_SLOT = 32768,     /* "slot": a call that is sent again in a session gets a new slot */
    SYS_TEST_FRAMES = 65536,   /* "frames": the cache gives out what it has, whatever was written */
    SYS_TEST_TIMES = 131072,   /* "times": the cache keeps data that another host changed */
    SYS_TEST_CUTS = 262144,  /* "flush-before-truncate": a file is cut while data of it is unsent */
    SYS_TEST_AGENT = 524288, /* "agent": nobody sends what a dead process left */
    SYS_TEST_STRAY_PROOF =
        1048576 /* "stray-proof": a stray is sent, even if the file was changed */
};

#ifdef DIRECTNFS_TEST_SWITCHES
#include <stdlib.h>
#include <string.h>

static inline unsigned sys_test_switches(void)
{
    static const char *const names[] = {"verifier",
                                        "hold",
                                        "xid",
                                        "distrust",
                                        "conflict",
                                        "worlds",
                                        "arrived",
                                        "pins",
                                        "append",
                                        "ahead",
                                        "orphans",
                                        "dirty",
                                        "others",
                                        "told",
                                        "promised",
                                        "slot",
                                        "frames",
                                        "times",
                                        "flush-before-truncate",
                                        "agent",
                                        "stray-proof"};
    const char *at = getenv("DIRECTNFS_TEST_UNSAFE");
    unsigned found = 0;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
            if (length == strlen(names[i]) && strncmp(at, names[i], length) == 0)
                found |= 1u << i;
        }
        at += length + (at[length] == ',');
    }
    return found;
}

/* Is this protection switched off? */
static inline bool sys_test_unsafe(enum sys_test_switch which)
{
    static _Atomic unsigned known; /* the switches, and the bit that they are known */
    const unsigned is_known = 1u << 31;
    if (!(known & is_known))
        known = sys_test_switches() | is_known;
    return (known & which) != 0;
}
#else
static inline bool sys_test_unsafe(enum sys_test_switch which)
{
    (void)which;
    return false;
}
#endif

#endif
