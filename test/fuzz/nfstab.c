/*
 * The nfstab. The input is its text. Every mistake has a place and a printable sentence; a text
 * without mistakes is within the limits, and what is printed of it parses to the same tree.
 */
#include <errno.h>

#include "nfstab_helpers.h"
#include "fuzz.h"

static void check_diagnostics(const struct conf_diagnostics *d)
{
    char line[1024];
    must(d->count <= CONF_DIAGNOSTICS_MAX && d->count <= d->errors + d->notices);
    for (size_t i = 0; i < d->count; i++) {
        conf_diagnostic_format(&d->list[i], line, sizeof(line));
        must_be_printable(line, sizeof(line));
        must(d->list[i].at.line > 0);
    }
}

static void check_limits(const struct conf_nfstab *tab)
{
    for (size_t i = 0; i < tab->server_count; i++) {
        const struct conf_server *server = &tab->servers[i];
        must(server->path_count >= 1 && server->path_count <= CONF_PATHS_MAX);
        must(server->export_count >= 1 && server->export_count <= CONF_EXPORTS_MAX);
        must(server->connections <= CONF_CONNECTIONS_MAX);
        must(server->nfsport <= 65535 && server->mntport <= 65535);
        must(server->uid != 0);
        for (size_t k = 0; k < server->export_count; k++) {
            must(server->exports[k].directory[0] == '/' && server->exports[k].mount[0] == '/');
            must(strlen(server->exports[k].directory) <= CONF_EXPORT_LENGTH_MAX);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    int result = conf_nfstab_parse(&tab, "nfstab", (const char *)data, size, &d);
    must(result == 0 || result == -EINVAL);
    must((result == 0) == (d.errors == 0));
    check_diagnostics(&d);
    char *printed = conf_nfstab_print(&tab); /* with mistakes too: `directnfs check` shows it */
    must(printed != NULL);
    if (result == 0) {
        check_limits(&tab);
        assert_round_trip(&tab);
    }
    free(printed);
    conf_nfstab_free(&tab);
    conf_diagnostics_free(&d);
    return 0;
}
