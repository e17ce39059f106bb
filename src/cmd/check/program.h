/*
 * directnfs check --program and --pid: would preloading work, and what would it not see?
 */
#ifndef CMD_CHECK_PROGRAM_H
#define CMD_CHECK_PROGRAM_H

#include "cmd/check/report.h"
#include "cmd/check/binary.h"

/* The program that execvp(3) would start for this name. Returns CMD_FINE or CMD_NOT_FINE. */
int check_program(const char *name, bool json);

/* The running process. Returns likewise. */
int check_process(unsigned pid, bool json);

/* ---- inside of these two ---- */

/* Says what the calls of a program and its libraries, all opened, mean for the library. */
void check_calls(struct check_report *report, const struct program *program);

/* A program whose files the kernel serves: says so if it is linked statically, for another machine,
 * damaged, or no program. False: nothing more can be said about it. */
bool check_elf(struct check_report *report, struct program_object *object);

/* Is this object the library itself? */
bool check_is_ours(const struct program_object *object);

/* The version in a libdirectnfs.so, memory for free(3); NULL if it has none. */
char *check_library_version(const struct elf_file *elf);

#endif
