/*
 * The files of the server of file_server.h, and what tests ask of it.
 *
 * UNSTABLE writes reach the file at once, as on a real server. What the file would be after a loss
 * of power is kept aside until COMMIT.
 */
#ifndef TEST_FILE_STORE_H
#define TEST_FILE_STORE_H

#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nfs3_server.h"

enum { FILE_SERVER_NODES = 256, FILE_SERVER_HANDLE = 16 };

enum file_server_command {
    FILE_SERVER_LOSE_POWER = 1, /* uncommitted data vanishes, connections break, new verifier */
    FILE_SERVER_NEW_VERIFIER,   /* only that */
    FILE_SERVER_RESET,          /* connections break */
    FILE_SERVER_RELEASE,        /* what was held is executed */
    FILE_SERVER_DROP_HELD,      /* what was held is forgotten, and its connections break */
    FILE_SERVER_STOP,           /* connections break and new ones are refused ... */
    FILE_SERVER_REFUSE,         /* only new connections are refused ... */
    FILE_SERVER_START           /* ... until now */
};

/* What answers to READ and WRITE say that cannot be. */
enum file_server_lie {
    FILE_SERVER_TRUTH,
    FILE_SERVER_NOTHING, /* no bytes, and neither an error nor the end */
    FILE_SERVER_MORE,    /* a byte more than was asked for; of WRITE */
    FILE_SERVER_WEAK,    /* less stable than was asked for */
    FILE_SERVER_HALF,    /* half of the bytes, and the end; of READ */
    FILE_SERVER_BEYOND,  /* bytes behind the end */
    FILE_SERVER_GROWS /* no lie: somebody makes the file longer before the attributes are taken */
};

/* What tests set and read; shared memory of all processes of a test. */
struct file_control {
    in_port_t port;
    _Atomic unsigned calls[NFS_PROC_COUNT]; /* executed */
    _Atomic unsigned connections;           /* that were made, of any program */
    _Atomic unsigned writes[3];             /* by stable_how */
    _Atomic unsigned longest_read, longest_write;
    /* For the next `fail_count` calls. */
    _Atomic unsigned fail_count[NFS_PROC_COUNT];
    _Atomic uint32_t fail_status[NFS_PROC_COUNT];
    _Atomic bool spares_directories; /* with that */
    /* After that many calls more (1: the next): executed, but the connection breaks. */
    _Atomic unsigned drop_after[NFS_PROC_COUNT];
    /* Likewise: executed, then power fails. */
    _Atomic unsigned power_after[NFS_PROC_COUNT];
    _Atomic bool power_often; /* and after each second call of that kind from then on */
    _Atomic uint32_t short_read, short_write; /* bytes of a reply at most; 0: no limit */
    _Atomic unsigned full_after_short;        /* so many WRITEs after a short one find no room */
    _Atomic unsigned lie;                     /* enum file_server_lie */
    _Atomic uint64_t full_at; /* there is no room for bytes of a file from here on; 0: no limit */
    _Atomic uint32_t rtmax, wtmax;
    _Atomic uint64_t maxfilesize;
    _Atomic uint32_t committed; /* at least */
    _Atomic uint32_t access;    /* bits that ACCESS may grant */
    _Atomic uint32_t hold;      /* procedures (bits) that are not executed for now */
    _Atomic unsigned held;
    _Atomic unsigned delay_ms;        /* before each call */
    _Atomic unsigned commit_delay_ms; /* before each COMMIT */
    /* Of other programs (MOUNT): so many are answered by breaking the connection; what was seen of
     * them; while `mount_waits` none is answered; MOUNT is, with this status. */
    _Atomic unsigned mount_resets;
    _Atomic unsigned mount_calls, mount_port, mount_groups;
    _Atomic bool mount_waits;
    _Atomic uint32_t mount_status;
    /* Part of all handles: when it changes, those given before are stale. */
    _Atomic uint32_t handles;
    _Atomic int fileid_error, ctime_error, size_error;
    _Atomic int root_ctime_error; /* of directories */
    _Atomic bool no_attributes;
    _Atomic bool no_before;     /* WRITEs are answered without those of before */
    _Atomic uint64_t bare_from; /* WRITEs from here on are answered without them; 0: none */
    /* What is looked up as "twin" is another file than the one that has this name on the disk: with
     * the same number and times, but a handle and data of its own. */
    _Atomic bool twins;
    _Atomic bool restless; /* each WRITE is answered with another verifier */
    _Atomic uint64_t verifier;
    _Atomic uint64_t lost_bytes; /* of files that power losses changed */
};

struct file_server_node {
    ino_t inode;
    bool twin;
    int fd;
    int shown; /* whose attributes it has; `fd`, but for a twin */
    bool directory;
    bool dirty; /* `durable` is what the file will be after a loss of power */
    char *durable;
    size_t durable_size;
};

/* The server process's own. */
struct file_store {
    struct file_control *control;
    struct file_server_node nodes[FILE_SERVER_NODES];
    unsigned node_count;
};
extern struct file_store file_store;

struct file_server_node *file_server_node_of(int fd);

/* The twin of the file that is open as `fd`: only one is ever asked for. */
struct file_server_node *file_server_twin_of(int fd);
struct nfs_fh file_server_handle(const struct file_server_node *node);
bool file_server_take(_Atomic unsigned *count);

/* Of which file a call speaks, and how it is to be answered: a failure that a test asked for counts
 * as one of the file. */
struct file_server_node *file_server_of_call(unsigned procedure, const struct nfs_fh *fh,
                                             uint32_t *status);
void file_server_attr(const struct file_server_node *node, struct nfs_attr *attr);
void file_server_post(const struct file_server_node *node, struct nfs_post_attr *post);
void file_server_save(struct file_server_node *node);
void file_server_commit(struct file_server_node *node);

/* What is on stable storage at once must survive the loss of other data. */
void file_server_durable_size(struct file_server_node *node, size_t size);
void file_server_durable_write(struct file_server_node *node, const void *data, size_t length,
                               uint64_t offset);

#endif
