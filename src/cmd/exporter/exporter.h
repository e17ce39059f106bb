/*
 * directnfs exporter: the metrics of `directnfs stat --prometheus` over HTTP. One thread.
 */
#ifndef CMD_EXPORTER_EXPORTER_H
#define CMD_EXPORTER_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>

/* ---- listen.c ---- */

enum { EXPORTER_WHY = 160 };

/* A socket that listens on "ADDRESS:PORT", "[ADDRESS]:PORT" or ":PORT"; NULL: the one that systemd
 * handed over. -1 and a sentence in `why`; `wrong` if it was asked for wrongly. */
int exporter_listen(const char *where, bool *wrong, char why[EXPORTER_WHY]);
/* Did systemd hand a socket over? */
bool exporter_is_handed(void);
/* Of root's capabilities keeps what reading the directories of all users needs. False: errno. */
bool exporter_drop_privileges(void);

/* ---- http.c ---- */

/* What is answered to GET of /metrics: the text for free(), of `size` bytes. */
typedef char *exporter_metrics(size_t *size);

/* Serves until SIGTERM or SIGINT. CMD_FINE, or CMD_NOT_FINE after a complaint. Closes `fd`. */
int exporter_serve(int fd, exporter_metrics *metrics);

#endif
