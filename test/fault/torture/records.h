/*
 * The files of records: any thread of any process appends to them at any time, several records with
 * a call, and nobody knows where they come to lie. Each of the 8-byte words of a record carries its
 * writer, its number and its place: what lies in the file tells by itself whether a record is torn,
 * there twice, or before an older one of its writer.
 */
#ifndef FAULT_RECORDS_H
#define FAULT_RECORDS_H

#include "journal.h"

enum { RECORD = RECORD_WORDS * 8, CALL_MOST = 320, CALL_BYTES = CALL_MOST * RECORD };

/* What was known before a file was read, or lost. */
struct log_view {
    enum bound bound;
    bool quiet; /* nobody writes, and every call did what it was to do */
    uint32_t done[SLOTS_MOST], synced[SLOTS_MOST];
};

/* Record `first` of a writer and those that follow it, as one call writes them. */
void records_stamp(unsigned char *to, unsigned log, unsigned slot, uint32_t first, uint32_t count);
void records_look(unsigned log, enum bound bound, bool quiet, struct log_view *view);

/* ---- what lies in a file ---- */

/* `view` was taken before `bytes` were read, which are the whole file. */
bool records_check(unsigned log, const struct log_view *view, const void *bytes, size_t length,
                   const char *when);

#endif
