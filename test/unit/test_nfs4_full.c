/* Servers of NFSv4.1 that have as many sessions, or open files, as they allow: waited for, and
 * said. */
#include <stdio.h>
#include <stdlib.h>

#include "log_lines.h"
#include "session_scene.h"

static char run_directory[64], log_name[80];

/* In a run directory of its own, where nothing was said yet. */
static void begin_log(void)
{
    snprintf(run_directory, sizeof(run_directory), "/dev/shm/test_nfs4_full.XXXXXX");
    assert_non_null(mkdtemp(run_directory));
    assert_int_equal(setenv("DIRECTNFS_RUN", run_directory, 1), 0);
    snprintf(log_name, sizeof(log_name), "%s/log", run_directory);
    log_set_level(LOG_LEVEL_WARNING);
    assert_int_equal(log_open(log_name), 0);
}

static void end_log(const char *text, unsigned lines)
{
    char remove_run[80];
    assert_int_equal(lines_with(log_name, text), lines);
    log_open("/dev/null");
    snprintf(remove_run, sizeof(remove_run), "rm -rf %s", run_directory);
    assert_int_equal(system(remove_run), 0);
}

SESSION_TEST(a_server_that_makes_no_more_sessions_is_waited_for_and_that_is_said_once)
{
    enum { NOSPC = 28, DELAY = 10008, RESOURCE = 10018 };
    const uint32_t statuses[] = {NOSPC, RESOURCE, DELAY}, often[] = {2, 2, 11};
    struct nfs_attr attr;
    for (unsigned i = 0; i < 3; i++) {
        begin_log();
        nfs4_session_end(&session_client);
        fail_next(i == 1 ? S_EXCHANGE_ID : S_CREATE_SESSION, statuses[i], often[i]);
        assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
        end_log("it makes no session: ", 1);
    }
}

SESSION_TEST(a_server_that_opens_no_more_files_is_named)
{
    enum { RESOURCE = 10018 };
    struct nfs_transfer done;
    begin_log();
    write_block(7, &done);
    atomic_store(&session_server.insists, true);
    fail_next(S_OPEN, RESOURCE, 2);
    read_block(7);
    end_log("it insists that files are open, and opens no more", 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
