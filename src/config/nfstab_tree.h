/*
 * Building and taking apart the tree of nfstab.h. Not for other rooms.
 */
#ifndef CONF_NFSTAB_TREE_H
#define CONF_NFSTAB_TREE_H

#include "config/nfstab.h"

/* Keeps a copy of a file's name in the tree, for positions to point to. NULL: there is no
 * memory. */
const char *conf_nfstab_file(struct conf_nfstab *tab, const char *file);

/* Append an element with default values, and return it. NULL: there is no memory. The pointer is
 * valid until the next element of its kind is appended to this parent. */
struct conf_server *conf_nfstab_add_server(struct conf_nfstab *tab, const char *name);
struct conf_path *conf_server_add_path(struct conf_server *server);
struct conf_export *conf_server_add_export(struct conf_server *server, const char *directory);

/* Free what the structure owns, but not the structure. */
void conf_server_clear(struct conf_server *server);
void conf_export_clear(struct conf_export *export);

/* The export at this mount, among the servers from..to-1. NULL: there is none. */
const struct conf_export *conf_nfstab_find(const struct conf_nfstab *tab, size_t from, size_t to,
                                           const char *mount);

/* Is this text an address as in conf_path.peer, perhaps with [] around IPv6? Yes: copies it to
 * `address` without brackets, and returns NULL. No: returns what would have been right. */
const char *conf_address_copy(char address[CONF_ADDRESS_SIZE], const char *text);

/* Are both addresses equal, in any notation? Names are not resolved. */
bool conf_address_same(const char *a, const char *b);

/* Normalises an absolute directory in place: no double slash, no "." part, no slash at the end (but
 * "/" stays). Returns NULL, or what would have been right. */
const char *conf_directory_normalise(char *directory);

/* Does the next item begin here ("mount: /b"), rather than a value? Knows the keys of the grammar.
 * Looks no further than the end of the line. */
bool conf_nfstab_is_item(const char *text, const char *end);

#endif
