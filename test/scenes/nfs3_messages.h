/*
 * NFSv3 messages written down by hand from RFC 1813 section 3.3, in hexadecimal, and one shape for
 * the decoder and encoder of each: shared by the tests of the codec. Every message is decoded in a
 * heap block of exactly its size, so that a sanitizer or valgrind sees any access outside.
 */
#ifndef TEST_UNIT_NFS3_MESSAGES_H
#define TEST_UNIT_NFS3_MESSAGES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hex.h"
#include "nfs3_server.h"
#include "unit.h"

/* A handle of five bytes: length, bytes, padding. */
#define FH "00000005 0102030405 000000 "

/* fattr3: type, mode, nlink, uid, gid, size, used, rdev, fsid, fileid, atime, mtime, ctime. */
#define ATTR                                                                          \
    "00000001 000001a4 00000002 000003e8 000003e9 0000000123456789 0000000123457000 " \
    "00000007 00000009 1122334455667788 99aabbccddeeff01 "                            \
    "5f000001 0000000a 5f000002 0000000b 5f000003 0000000c "

#define POST   "00000001 " ATTR
#define NOPOST "00000000 "
/* wcc_data: size, mtime, ctime before; attributes after. */
#define BEFORE "00000001 0000000000001000 5e000001 00000001 5e000002 00000002 "

#define WCC   BEFORE POST
#define NOWCC "00000000 00000000 "

/* sattr3: mode 0600, uid 1000, gid as it is, size 4096, atime the server's, mtime given. */
#define SATTR                                                                 \
    "00000001 00000180 00000001 000003e8 00000000 00000001 0000000000001000 " \
    "00000001 00000002 5f000010 00000011 "

#define NOSATTR  "00000000 00000000 00000000 00000000 00000000 00000000 "
#define VERIFIER "a1a2a3a4a5a6a7a8 "
#define OK       "00000000 "
#define FOO      "00000003 666f6f 00 "

/* Every message in both directions, behind one shape. */

int get_fh_args(struct xdr_reader *r, void *v);
int put_fh_args(struct xdr_writer *w, const void *v);
int get_setattr_args(struct xdr_reader *r, void *v);
int put_setattr_args(struct xdr_writer *w, const void *v);
int get_lookup_args(struct xdr_reader *r, void *v);
int put_lookup_args(struct xdr_writer *w, const void *v);
int get_access_args(struct xdr_reader *r, void *v);
int put_access_args(struct xdr_writer *w, const void *v);
int get_read_args(struct xdr_reader *r, void *v);
int put_read_args(struct xdr_writer *w, const void *v);
int get_write_args(struct xdr_reader *r, void *v);
int put_write_args(struct xdr_writer *w, const void *v);
int get_commit_args(struct xdr_reader *r, void *v);
int put_commit_args(struct xdr_writer *w, const void *v);
int get_getattr_res(struct xdr_reader *r, void *v);
int put_getattr_res(struct xdr_writer *w, const void *v);
int get_setattr_res(struct xdr_reader *r, void *v);
int put_setattr_res(struct xdr_writer *w, const void *v);
int get_lookup_res(struct xdr_reader *r, void *v);
int put_lookup_res(struct xdr_writer *w, const void *v);
int get_access_res(struct xdr_reader *r, void *v);
int put_access_res(struct xdr_writer *w, const void *v);
int get_read_res(struct xdr_reader *r, void *v);
int put_read_res(struct xdr_writer *w, const void *v);
int get_write_res(struct xdr_reader *r, void *v);
int put_write_res(struct xdr_writer *w, const void *v);
int get_fsinfo_res(struct xdr_reader *r, void *v);
int put_fsinfo_res(struct xdr_writer *w, const void *v);
int get_commit_res(struct xdr_reader *r, void *v);
int put_commit_res(struct xdr_writer *w, const void *v);

#define GETATTR_OK   OK ATTR
#define SETATTR_ARGS FH SATTR "00000001 5f000003 0000000c" /* guarded by a ctime */
#define LOOKUP_ARGS  FH FOO
#define LOOKUP_OK    OK FH POST POST
#define ACCESS_ARGS  FH "0000001f"
#define ACCESS_OK    OK POST "0000000d"
#define READ_ARGS    FH "0000000100000200 00002000"
#define READ_OK      OK POST "00001000 00000001 00001000"
#define READ_OK_BARE OK NOPOST "00002000 00000000 00002000"
#define WRITE_ARGS   FH "0000000100000200 00000005 00000002 00000005"
#define WRITE_OK     OK WCC "00001000 00000002 " VERIFIER
#define FSINFO_OK                                                             \
    OK POST "00100000 00080000 00001000 00100001 00080001 00000200 00002000 " \
            "7fffffffffffffff 00000000 00000001 0000001b"

#define COMMIT_ARGS FH "0000000100000200 00000000"
#define COMMIT_OK   OK WCC VERIFIER

struct message {
    const char *name;
    const char *hex;
    int (*get)(struct xdr_reader *r, void *v);
    int (*put)(struct xdr_writer *w, const void *v);
};
extern const struct message messages[];
extern const size_t message_count;

/* Room for any decoded structure, filled so that a field left alone is not 0 by luck. */
union decoded {
    struct nfs3_fh_args fh_args;
    struct nfs3_setattr_args setattr_args;
    struct nfs3_lookup_args lookup_args;
    struct nfs3_access_args access_args;
    struct nfs3_read_args read_args;
    struct nfs3_write_args write_args;
    struct nfs3_commit_args commit_args;
    struct nfs3_getattr_res getattr;
    struct nfs3_setattr_res setattr;
    struct nfs3_lookup_res lookup;
    struct nfs3_access_res access;
    struct nfs3_read_res read;
    struct nfs3_write_res write;
    struct nfs_fsinfo_res fsinfo;
    struct nfs3_commit_res commit;
};

/* Decodes a message that lies in a block of its own, of which only the first `size` bytes came.
 */
int decode_part(const struct exact *b, size_t size, int (*get)(struct xdr_reader *r, void *v),
                union decoded *v, size_t *left);
int decode(const char *hex, int (*get)(struct xdr_reader *r, void *v), union decoded *v);

#endif
