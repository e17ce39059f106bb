/*
 * COMPOUNDs of NFSv4.1 written down by hand from RFC 8881 chapter 18 and the XDR of RFC 5662, in
 * hexadecimal: shared by the tests of the codec and by its fuzzer.
 */
#ifndef TEST_UNIT_NFS4_MESSAGES_H
#define TEST_UNIT_NFS4_MESSAGES_H

#include <stdlib.h>
#include <string.h>

#include "hex.h"
#include "nfs/v4/xdr.h"

#define SESSION "00112233445566778899aabbccddeeff "
#define STATEID "00000000000000000000000000000000 "
#define OK      "00000000 "
/* A request: an empty tag, minor version 1, so many operations. A reply: its status, an empty tag.
 */
#define CALL(operations) "00000000 00000001 " operations " "

#define REPLY(status, operations) status " 00000000 " operations " "
/* SEQUENCE: operation, session, sequence 7, slot 3, highest slot 5, reply kept. */
#define SEQUENCE "00000035 " SESSION "00000007 00000003 00000005 00000001 "

/* status, session, sequence 7, slot 3, highest slot 9, target 8, the path for callbacks down. */
#define SEQUENCED "00000035 " OK SESSION "00000007 00000003 00000009 00000008 00000001 "

/* A handle of five bytes: operation, length, bytes, padding. */
#define PUTFH "00000016 00000005 0102030405 000000 "

#define PUTFH_DONE "00000016 " OK
/* GETATTR of type, change, size, fsid, fileid; space used, times of access, metadata, modification:
 * bits 1, 3, 4, 8, 20; 13, 15, 20, 21 of the second word. */
#define GETATTR "00000009 00000002 0010011a 0030a000 "

/* The replies that this client gets: how the operation behind SEQUENCE and PUTFH is read. */
enum reply_kind {
    REPLY_EXCHANGE_ID,
    REPLY_CREATE_SESSION,
    REPLY_BIND,
    REPLY_GETATTR,
    REPLY_LOOKUP,
    REPLY_ACCESS,
    REPLY_READ,
    REPLY_WRITE,
    REPLY_COMMIT,
    REPLY_SETATTR,
    REPLY_OPEN,
    REPLY_CLOSE,
    REPLY_SECINFO,
    REPLY_KINDS
};

/* What all of them have together. */
struct reply {
    struct nfs4_sequence sequence;
    struct nfs4_exchange_id exchange;
    struct nfs4_create_session created;
    struct nfs4_attributes attributes;
    struct nfs4_stateid stateid;
    struct nfs_fh fh;
    uint8_t session[NFS4_SESSION_ID];
    uint32_t status, access, count, committed;
    uint32_t flavors[NFS_FLAVORS_MAX];
    uint64_t verifier;
    bool eof;
};

/* Reads a whole reply: 0 or -EBADMSG. */
int reply_get(struct xdr_reader *r, enum reply_kind kind, struct reply *reply);

/* One of each. READ is written down up to its payload. */
extern const char *const replies[REPLY_KINDS];

#endif
