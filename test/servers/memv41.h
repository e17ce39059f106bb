// NFS version 4.1 of memserver, on the files of memfiles.h: what a client needs that reads and
// writes by handle, with the stateid that is no open's.  READ is the last operation of its request.
#ifndef BENCH_MEMV41_H
#define BENCH_MEMV41_H

#include "memprocs.h"
#include "memsessions.h"
#include "odd41.h"

// A request as it is carried out.
struct compound {
    struct wire_reader *args;
    struct wire_writer *w;
    const struct credential *who;
    struct payload *payload;
    struct file *file; // the current filehandle; NULL: none
    struct slot *slot; // of its SEQUENCE; NULL: it has none
    bool keep;         // its reply
    bool again;        // it is the last request of its slot once more
    uint32_t left;     // operations behind this one
};

// Writes its results behind the status, if that is NFS_OK, and returns the status.
typedef uint32_t operation41(struct compound *c);

// Attributes

enum {
    A_SUPPORTED = 0,
    A_TYPE = 1,
    A_CHANGE = 3,
    A_SIZE = 4,
    A_FSID = 8,
    A_LEASE = 10,
    A_FILEID = 20,
    A_MAXFILESIZE = 27,
    A_MAXREAD = 30,
    A_MAXWRITE = 31,
    A_MODE = 33,
    A_LINKS = 35,
    A_SPACE = 45,
    A_ATIME = 47,
    A_DELTA = 51,
    A_CTIME = 52,
    A_MTIME = 53,
    A_MOUNTED = 55
};

uint64_t get_bitmap(struct wire_reader *r);

// Sessions

// Of a request behind its RPC header, up to the payload.
void do_compound(struct wire_reader *args, struct wire_writer *w, const struct credential *who,
                 struct payload *payload);

#endif
