/* See nfstab_helpers.h. */
#include "nfstab_helpers.h"

void print_diagnostics(const struct conf_diagnostics *d)
{
    char line[512];
    for (size_t i = 0; i < d->count; i++)
        print_error("%s\n", conf_diagnostic_format(&d->list[i], line, sizeof(line)));
}

void parse(struct conf_nfstab *tab, const char *text)
{
    struct conf_diagnostics d = {0};
    *tab = (struct conf_nfstab){0};
    int result = conf_nfstab_parse(tab, "test", text, strlen(text), &d);
    print_diagnostics(&d);
    assert_int_equal(result, 0);
    assert_int_equal(d.errors, 0);
    conf_diagnostics_free(&d);
}

void assert_same(const struct conf_nfstab *a, const struct conf_nfstab *b)
{
    assert_int_equal(a->server_count, b->server_count);
    for (size_t s = 0; s < a->server_count; s++) {
        const struct conf_server *x = &a->servers[s], *y = &b->servers[s];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->mnt_timeout, y->mnt_timeout);
        assert_int_equal(x->connections, y->connections);
        assert_int_equal(x->nfsport, y->nfsport);
        assert_int_equal(x->mntport, y->mntport);
        assert_int_equal(x->uid, y->uid);
        assert_int_equal(x->gid, y->gid);
        assert_int_equal(x->path_count, y->path_count);
        for (size_t i = 0; i < x->path_count; i++) {
            assert_string_equal(x->paths[i].peer, y->paths[i].peer);
            assert_string_equal(x->paths[i].local, y->paths[i].local);
            assert_int_equal(x->paths[i].dontroute, y->paths[i].dontroute);
        }
        assert_int_equal(x->export_count, y->export_count);
        for (size_t i = 0; i < x->export_count; i++) {
            assert_string_equal(x->exports[i].directory, y->exports[i].directory);
            assert_string_equal(x->exports[i].mount, y->exports[i].mount);
            assert_int_equal(x->exports[i].kernel, y->exports[i].kernel);
        }
    }
}

void assert_round_trip(const struct conf_nfstab *tab)
{
    struct conf_nfstab again;
    char *text = conf_nfstab_print(tab);
    assert_non_null(text);
    parse(&again, text);
    assert_same(tab, &again);
    conf_nfstab_free(&again);
    free(text);
}
