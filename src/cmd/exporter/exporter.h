/* directnfs exporter: the metrics of `directnfs stat --prometheus`, over HTTP. One thread. */
#ifndef CMD_EXPORTER_EXPORTER_H
#define CMD_EXPORTER_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>

/* ---- listen.c ---- */

enum { EXPORTER_WHY = 160 };

/* Makes a socket that listens on "ADDRESS:PORT", "[ADDRESS]:PORT" or ":PORT". NULL: takes the one
 * that systemd handed over. -1: `why` has a sentence; `wrong` says if `where` makes no sense. */
int exporter_listen(const char *where, bool *wrong, char why[EXPORTER_WHY]);
/* True if systemd handed a socket over. */
bool exporter_is_handed(void);
/* Keeps only those of root's capabilities that reading all users' directories needs. False:
 * errno. */
bool exporter_drop_privileges(void);

/* ---- http.c ---- */

/* Makes the answer to GET of /metrics: text of `size` bytes, for free(3). */
typedef char *exporter_metrics(size_t *size);

/* Serves until SIGTERM or SIGINT, and closes `fd`. CMD_FINE, or CMD_NOT_FINE after a complaint. */
int exporter_serve(int fd, exporter_metrics *metrics);

#endif
