/* What the tests of nfstab share: parsing of texts that must be right, and comparing trees. */
#ifndef TEST_NFSTAB_HELPERS_H
#define TEST_NFSTAB_HELPERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/nfstab.h"
#include "unit.h"

void print_diagnostics(const struct conf_diagnostics *d);

/* Parses a text that must be right. */
void parse(struct conf_nfstab *tab, const char *text);
void assert_same(const struct conf_nfstab *a, const struct conf_nfstab *b);
void assert_round_trip(const struct conf_nfstab *tab);

#endif
