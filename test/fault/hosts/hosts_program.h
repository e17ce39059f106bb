/*
 * A program of a host, under the library: in each turn of its host it opens the files, looks
 * whether all that was made stable is there, writes its blocks, and makes them stable. And a
 * visitor: a program that opens another file of the mount, and ends.
 */
#ifndef FAULT_HOSTS_PROGRAM_H
#define FAULT_HOSTS_PROGRAM_H

#include "hosts.h"

/* --program JOURNAL HOST INDEX */
int program_process(int argc, char **argv);

/* --visit JOURNAL */
int visitor_process(int argc, char **argv);

#endif
