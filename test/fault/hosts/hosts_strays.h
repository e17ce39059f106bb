/*
 * What a host owes whose programs and agent are dead: of each block the version that write(2)
 * accepted last, if the server has it not. When a program of the host comes back it must be at the
 * server, or in a file of the run directory (src/run/strays.h says how that looks).
 */
#ifndef FAULT_HOSTS_STRAYS_H
#define FAULT_HOSTS_STRAYS_H

#include <dirent.h>

#include "hosts_overtaken.h"

extern int files[FILES]; /* as the kernel sees them */

extern uint64_t inodes[FILES];

extern unsigned stray_files, debts_sent, debts_aside, debts_needless, debts_unknown;

extern unsigned turn_host; /* which is of this host */

/* ---- the files of the run directory ---- */

void pieces_free(void);

/* All of a host; removes them, with `then_remove`. */
void strays_read(unsigned host, bool then_remove);

/* ---- debts ---- */

/* How many words of a block have this version, or one up to `last`, neither at the server nor
 * aside, and how many are aside? At the server a newer one will do. */
unsigned words_missing(unsigned file, unsigned block, uint32_t version, uint32_t last,
                       unsigned *aside);
bool owes(unsigned host);

/* What was written in this turn and is not stable, as far as an fsync said so; 0: nothing. */
uint32_t unsynced(unsigned file, unsigned block);

/* The blocks of a program that is dead. Nothing of the host is on its way any more. */
void debts_note(unsigned host, unsigned index);

/* The other host made changes of this file stable. */
void debts_are_sure(unsigned host, unsigned file);
void debts_turn_begins(void);

/* Whose turn it was wrote to files of which the other host owes something. */
void debts_turn_ends(unsigned other);

/* A program of the host came back. */
bool debts_check(unsigned host, const char *when);

#endif
