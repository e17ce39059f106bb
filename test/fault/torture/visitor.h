/*
 * Visitors: processes that come in the midst of a round, work on some of the files in ways that
 * need the kernel's view of them, or without what the library needs, and end or are killed. To
 * everybody else the files must go on as if nothing were: what is acknowledged is read, what is
 * synced stays, whoever did it.
 */
#ifndef FAULT_VISITOR_H
#define FAULT_VISITOR_H

#include <grp.h>
#include <sys/resource.h>

#include "worker.h"

enum { NOBODY = 65534, ADDRESS_SPACE = 160 << 20, BUSY_ACTS = 12 };

/* ---- the process ---- */

/* Sized files change their size, which nobody can map, and who is nobody cannot open a file. */
struct visit {
    const char *name;
    void (*begin)(struct worker *w); /* its files are open; NULL: nothing */
    void (*act)(struct worker *w);
    bool fixed_only; /* no sized files */
    bool apart;      /* it gets no answer from the server, see --apart */
    bool narrow;     /* there is no room in its address space for the registry */
};
enum { VISITS = 10 };
extern const struct visit visits[VISITS];

const struct visit *visit_find(const char *name);

/* torture --visitor JOURNAL INDEX ROUND VISIT [DESCRIPTOR...]; the descriptors after exec. */
int visitor_process(int argc, char **argv);

#endif
