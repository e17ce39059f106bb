/* The procedures of NFSv3 and MOUNT that the server of file_server.h answers: arguments from `r`,
 * results to `w`, and for READ the payload. */
#ifndef TEST_FILE_PROCEDURES_H
#define TEST_FILE_PROCEDURES_H

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "file_store.h"

void file_server_lookup(struct xdr_reader *r, struct xdr_writer *w);
void file_server_read(struct xdr_reader *r, struct xdr_writer *w, uint8_t **payload,
                      size_t *length);
void file_server_write(struct xdr_reader *r, struct xdr_writer *w);
void file_server_commit_call(struct xdr_reader *r, struct xdr_writer *w);
void file_server_setattr(struct xdr_reader *r, struct xdr_writer *w);

/* GETATTR, ACCESS and FSINFO. */
void file_server_ask(unsigned procedure, struct xdr_reader *r, struct xdr_writer *w);

/* Where the call comes from, and how many groups its AUTH_SYS credential has besides the first. */
void file_server_look(int fd, const uint8_t *credential, uint32_t size);
void file_server_mount(uint32_t procedure, struct xdr_reader *r, struct xdr_writer *w);

#endif
