/*
 * The kernel's own mount below one of ours, for check_export.c.
 */
#ifndef CMD_CHECK_KERNEL_H
#define CMD_CHECK_KERNEL_H

#include "cmd/check/report.h"
#include "config/mountinfo.h"

/* Says which options of an NFS mount of the kernel hurt what is left to it: names, locks, files
 * that are not served. */
void check_kernel_mount(struct check_report *report, const struct conf_mount *mount);

#endif
