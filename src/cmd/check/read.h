/*
 * check --read: the throughput of a path, for check_export.c.
 */
#ifndef CMD_CHECK_READ_H
#define CMD_CHECK_READ_H

#include "cmd/check/export.h"

/* Is the file that the user named below this mount? */
bool check_read_lies_in(const struct check *check, const struct conf_export *export);

/* Reads it over the path, for about a second. */
void check_read(struct check *check, const struct conf_server *conf,
                const struct conf_export *export, struct check_path *path, struct check_root *root);

#endif
