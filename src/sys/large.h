/*
 * Where large tables are in memory. Most pages of a table are never touched, and each page that is
 * costs a fault at every start. So what is small stands together, and the tables behind it: ld
 * sorts sections by their names (Makefile).
 */
#ifndef SYS_LARGE_H
#define SYS_LARGE_H

/* Before a table of some pages that has no initial value. */
#define SYS_LARGE __attribute__((section(".bss.large")))

#endif
