/*
 * Building and taking apart the tree of nfstab.h; not for other rooms.
 */
#ifndef CONF_NFSTAB_TREE_H
#define CONF_NFSTAB_TREE_H

#include "config/nfstab.h"

/* Keeps a copy of a file's name in the tree for positions to point to. NULL without memory. */
const char *conf_nfstab_file(struct conf_nfstab *tab, const char *file);

/* Append an element, the rest of it at its default, and return it, or NULL without memory. The
 * pointer holds until the next element of its kind is appended to the same parent. */
struct conf_server *conf_nfstab_add_server(struct conf_nfstab *tab, const char *name);
struct conf_path *conf_server_add_path(struct conf_server *server);
struct conf_export *conf_server_add_export(struct conf_server *server, const char *directory);

/* Free what it owns, not itself. */
void conf_server_clear(struct conf_server *server);
void conf_export_clear(struct conf_export *export);

/* The export at this mount, of the servers from..to-1. NULL: there is none. */
const struct conf_export *conf_nfstab_find(const struct conf_nfstab *tab, size_t from, size_t to,
                                           const char *mount);

/* Is this text an address as conf_path.peer has it (with [] around IPv6 or without)? If so it is
 * copied to `address` without brackets and NULL is returned, else what would have been right. */
const char *conf_address_copy(char address[CONF_ADDRESS_SIZE], const char *text);

/* Do two of them say the same, however they are written? What names resolve to plays no part. */
bool conf_address_same(const char *a, const char *b);

/*
 * Normalises an absolute directory in place: no doubled slash, no "." part, no slash at the end
 * (but "/" stays). Returns NULL, or what would have been right.
 */
const char *conf_directory_normalise(char *directory);

/* Is the text at the start of a value rather the start of the next item ("mount: /b")? Knows the
 * keys of the grammar; looks not further than the end of the line. */
bool conf_nfstab_is_item(const char *text, const char *end);

#endif
