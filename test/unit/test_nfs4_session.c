/* Sessions of NFSv4.1: slots, copies of calls, sessions that are lost, and servers that err. */
#include <sys/wait.h>

#include "session_scene.h"

/* ---- what works ---- */

SESSION_TEST(the_first_call_makes_a_session_and_its_end_leaves_nothing)
{
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    assert_int_equal(attr.type, NFS_DIR);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    assert_int_equal(asked(S_EXCHANGE_ID), 1);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
    assert_int_equal(asked(S_RECLAIM_COMPLETE), 1);
    assert_int_equal(atomic_load(&session_server.alive), 1);
    nfs4_session_end(&session_client);
    assert_int_equal(atomic_load(&session_server.alive), 0);
    assert_int_equal(asked(S_DESTROY_CLIENTID), 1);
    nfs4_session_end(&session_client); /* there is none */
    assert_int_equal(asked(S_DESTROY_SESSION), 1);
}

SESSION_TEST(every_procedure_is_answered)
{
    struct nfs_transfer done;
    struct nfs_post_attr attr;
    struct nfs_fh fh;
    struct nfs_fsinfo_res info;
    struct nfs_sattr size = {.set_size = true, .size = 100};
    struct nfs_wcc wcc;
    uint32_t access = NFS_ACCESS_READ | NFS_ACCESS_LOOKUP | NFS_ACCESS_MODIFY;
    uint64_t verifier;
    bool unsettled, repeated;
    assert_int_equal(nfs_null(&session_client), 0);
    assert_int_equal(nfs4_walk(&session_client, "/dir/f", &fh), 0);
    assert_int_equal(fh.data[0], 'f');
    assert_int_equal(nfs4_walk(&session_client, "dir//none", &fh), -ENOENT);
    assert_int_equal(nfs_lookup(&session_client, &root, "f", &fh, &attr), 0);
    assert_true(attr.present);
    assert_int_equal(attr.attr.type, NFS_REG);
    assert_int_equal(nfs_access(&session_client, &session_file, &access, &attr), 0);
    assert_int_equal(access, NFS_ACCESS_READ | NFS_ACCESS_MODIFY);
    write_block(7, &done);
    assert_true(done.attr.present);
    assert_int_equal(done.attr.attr.size, BLOCK);
    assert_int_equal(done.committed, NFS_FILE_SYNC);
    read_block(7);
    assert_int_equal(nfs_commit(&session_client, &session_file, 0, 0, &verifier, &repeated), 0);
    assert_true(verifier == done.verifier);
    assert_int_equal(nfs_setattr(&session_client, &session_file, &size, &wcc, &unsettled), 0);
    assert_int_equal(wcc.after.attr.size, 100);
    assert_int_equal(nfs_fsinfo(&session_client, &root, &info), 0);
    assert_true(info.rtmax > 0 && info.rtmax <= SERVER_FILE);
    assert_int_equal(atomic_load(&session_client.session->lease_s), 90);
}

/* Linux' server says that it gives layouts (0x20000) whatever it exports: the file system decides.
 */
SESSION_TEST(a_file_system_with_layouts_is_known)
{
    static const struct {
        uint32_t role, layouts;
        bool by_layouts;
    } servers[] = {{0x10000, 0, false},
                   {0x10000, 2, false},
                   {0x20000, 0, false},
                   {0x20000, 2, true},
                   {0x30000, 2, false}};
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        struct nfs_fsinfo_res info;
        atomic_store(&session_server.role, servers[i].role);
        atomic_store(&session_server.layouts, servers[i].layouts);
        assert_int_equal(nfs_fsinfo(&session_client, &root, &info), 0);
        assert_int_equal(info.by_layouts, servers[i].by_layouts);
        nfs4_session_end(&session_client);
    }
}

SESSION_TEST(large_transfers_use_several_slots_at_once)
{
    static uint8_t data[40 * BLOCK], back[40 * BLOCK];
    struct nfs_transfer done;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 31 + i / 4096);
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    assert_int_equal(transfer(false, 0, back, sizeof(back), &done), 0);
    assert_memory_equal(data, back, sizeof(data));
    assert_true(done.eof);
    assert_int_equal(session_client.session->lost, 0);
    assert_int_equal(__builtin_popcountll(session_client.session->free), SERVER_SLOTS);
}

SESSION_TEST(a_session_with_one_slot_is_enough)
{
    static uint8_t data[8 * BLOCK], back[8 * BLOCK];
    struct nfs_transfer done;
    atomic_store(&session_server.slots, 1);
    atomic_store(&session_server.target, 0);
    memset(data, 3, sizeof(data));
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    assert_int_equal(transfer(false, 0, back, sizeof(back), &done), 0);
    assert_memory_equal(data, back, sizeof(data));
    assert_int_equal(atomic_load(&session_server.highest_slot), 0);
}

SESSION_TEST(no_more_slots_are_used_than_the_server_wants)
{
    static uint8_t data[8 * BLOCK];
    struct nfs_transfer done;
    struct nfs_attr attr;
    atomic_store(&session_server.target, 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    atomic_store(&session_server.highest_slot, 0);
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    assert_true(atomic_load(&session_server.highest_slot) <= 1);
    assert_int_equal(session_client.session->granted, 2);
}

/* A server that wanted fewer slots for a while may not have forgotten what it answered in the
 * others: a call that began them anew would get an old answer, and not be carried out. */
SESSION_TEST(slots_that_are_used_again_go_on_counting)
{
    static uint8_t data[4 * BLOCK], back[4 * BLOCK];
    struct nfs_transfer done;
    struct nfs_attr attr;
    memset(data, 1, sizeof(data));
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    atomic_store(&session_server.target, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    atomic_store(&session_server.target, SERVER_SLOTS - 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    memset(data, 2, sizeof(data));
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    assert_int_equal(transfer(false, 0, back, sizeof(back), &done), 0);
    assert_memory_equal(data, back, sizeof(data));
    assert_int_equal(atomic_load(&session_server.told_again), 0);
}

enum { THREADS = 6, ROUNDS = 40 };

static void *write_and_read(void *argument)
{
    uint8_t data[BLOCK], back[BLOCK];
    uint64_t number = (uint64_t)(uintptr_t)argument, wrong = 0;
    struct nfs_transfer done;
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(data, (int)(number * ROUNDS + i), sizeof(data));
        if (transfer(true, number * BLOCK, data, BLOCK, &done) != 0 || done.unsettled ||
            transfer(false, number * BLOCK, back, BLOCK, &done) != 0 ||
            memcmp(data, back, BLOCK) != 0)
            wrong++;
    }
    return (void *)(uintptr_t)wrong;
}

/* While connections die under them, and there are fewer slots than threads. */
SESSION_TEST(threads_share_a_session)
{
    pthread_t threads[THREADS];
    atomic_store(&session_server.slots, 3);
    atomic_store(&session_server.target, 2);
    atomic_store(&session_server.death, SERVER_DIES_AFTER);
    atomic_store(&session_server.deaths, 10);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, (void *)i), 0);
    uintptr_t wrong = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        void *of_thread;
        pthread_join(threads[i], &of_thread);
        wrong += (uintptr_t)of_thread;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(atomic_load(&session_server.writes), THREADS * ROUNDS);
    assert_true(atomic_load(&session_server.told_again) > 0);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
    assert_int_equal(session_client.session->lost, 0);
}

/* ---- copies ---- */

SESSION_TEST(the_answer_to_a_copy_is_that_of_the_first)
{
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.death, SERVER_DIES_AFTER);
    atomic_store(&session_server.deaths, 1);
    unsigned writes = atomic_load(&session_server.writes);
    write_block(2, &done);
    assert_int_equal(atomic_load(&session_server.writes), writes + 1);
    assert_int_equal(atomic_load(&session_server.told_again), 1);
    assert_false(done.unsettled);
    assert_false(done.repeated);
    assert_int_equal(atomic_load(&session_server.clients), 1);
    read_block(2);
}

SESSION_TEST(a_call_that_was_not_carried_out_is_by_its_copy)
{
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.death, SERVER_DIES_BEFORE);
    atomic_store(&session_server.deaths, 3);
    unsigned writes = atomic_load(&session_server.writes);
    write_block(2, &done);
    assert_int_equal(atomic_load(&session_server.writes), writes + 1);
    assert_int_equal(atomic_load(&session_server.told_again), 0);
    assert_false(done.unsettled);
    assert_false(done.repeated);
    read_block(2);
}

SESSION_TEST(a_read_whose_answer_was_not_kept_is_made_again)
{
    struct nfs_transfer done;
    write_block(4, &done);
    atomic_store(&session_server.uncached, 1);
    read_block(4);
    assert_int_equal(atomic_load(&session_server.uncached), 0);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
}

/* ---- what the server asks for ---- */

SESSION_TEST(a_server_that_asks_to_come_back_later_is_asked_again)
{
    struct nfs_transfer done;
    struct nfs_attr attr;
    fail_next(S_EXCHANGE_ID, NFS4ERR_DELAY, 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    fail_next(S_SEQUENCE, NFS4ERR_DELAY, 2);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    fail_next(S_WRITE, NFS4ERR_GRACE, 1);
    write_block(5, &done);
    fail_next(S_GETATTR, NFS4ERR_DELAY, 1); /* of a READ too: it comes first there */
    read_block(5);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
}

SESSION_TEST(a_file_system_that_moved_is_an_error)
{
    struct nfs_attr attr;
    struct nfs_transfer done;
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    fail_next(S_GETATTR, NFS4ERR_MOVED, 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EREMOTE);
    write_block(5, &done);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
}

SESSION_TEST(a_server_that_takes_no_state_at_all_is_an_error)
{
    struct nfs_wcc wcc;
    bool unsettled;
    const struct nfs_sattr size = {.set_size = true, .size = 100};
    fail_next(S_SETATTR, NFS4ERR_BAD_STATEID, 1000);
    assert_int_equal(nfs_setattr(&session_client, &session_file, &size, &wcc, &unsettled), -EIO);
    fail_next(S_SETATTR, NFS4ERR_BAD_STATEID, 0);
}

SESSION_TEST(an_idle_session_is_renewed_and_a_busy_one_is_not)
{
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    atomic_store(&session_client.session->lease_s, 3000);
    unsigned before = asked(S_SEQUENCE);
    assert_in_range(nfs4_session_renew(&session_client), 900000, 1000000);
    assert_int_equal(asked(S_SEQUENCE), before);
    session_client.session->used_ns -= UINT64_C(1001) * 1000000000;
    assert_int_equal(nfs4_session_renew(&session_client), 1000000);
    assert_int_equal(asked(S_SEQUENCE), before + 1);
    assert_in_range(nfs4_session_renew(&session_client), 900000, 1000000);
    assert_int_equal(asked(S_SEQUENCE), before + 1);
    session_client.session->used_ns -= UINT64_C(1001) * 1000000000;
    nfs4_session_lost(session_client.session, session_client.session->generation);
    assert_int_equal(nfs4_session_renew(&session_client), 1000000); /* who needs one makes it */
    assert_int_equal(asked(S_SEQUENCE), before + 1);
}

SESSION_TEST(a_connection_that_is_not_bound_is_bound)
{
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    fail_next(S_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    assert_int_equal(asked(S_BIND), 1);
    assert_int_equal(asked(S_CREATE_SESSION), 1);
}

/* ---- sessions that are lost ---- */

SESSION_TEST(a_server_that_forgot_the_session_gets_another)
{
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.forget, true);
    write_block(2, &done);
    assert_false(done.unsettled); /* one copy only, and that was refused */
    assert_int_equal(asked(S_CREATE_SESSION), 2);
    assert_int_equal(asked(S_EXCHANGE_ID), 2);
    atomic_store(&session_server.forget, true);
    read_block(2);
    assert_int_equal(asked(S_CREATE_SESSION), 3);
}

SESSION_TEST(a_server_that_takes_less_since_it_restarted_gets_shorter_calls)
{
    static uint8_t data[4 * BLOCK], back[4 * BLOCK];
    struct nfs_transfer done;
    write_block(1, &done);
    for (int write = 0; write < 2; write++)
        assert_int_equal(nfs_longest(&session_client, write), 2 * BLOCK);
    atomic_store(&session_server.request_max, BLOCK + 4096);
    atomic_store(&session_server.response_max, BLOCK / 2 + 4096);
    atomic_store(&session_server.forget, true);
    read_block(1);
    assert_int_equal(nfs_longest(&session_client, true), BLOCK);
    assert_int_equal(nfs_longest(&session_client, false), BLOCK / 2);
    memset(data, 5, sizeof(data));
    unsigned before = asked(S_WRITE);
    assert_int_equal(transfer(true, 0, data, sizeof(data), &done), 0);
    assert_int_equal(asked(S_WRITE) - before, 4);
    before = asked(S_READ);
    assert_int_equal(transfer(false, 0, back, sizeof(back), &done), 0);
    assert_int_equal(asked(S_READ) - before, 8);
    assert_memory_equal(data, back, sizeof(data));
    atomic_store(&session_server.request_max, SERVER_FILE + 4096); /* and as much again */
    atomic_store(&session_server.response_max, SERVER_FILE + 4096);
    atomic_store(&session_server.forget, true);
    read_block(5);
    for (int write = 0; write < 2; write++)
        assert_int_equal(nfs_longest(&session_client, write), 2 * BLOCK);
}

SESSION_TEST(statuses_that_end_a_session)
{
    static const uint32_t ends[] = {NFS4ERR_BADSESSION,     NFS4ERR_DEADSESSION,
                                    NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED,
                                    NFS4ERR_SEQ_MISORDERED, NFS4ERR_BADSLOT};
    struct nfs_transfer done;
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        fail_next(S_SEQUENCE, ends[i], 1);
        assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
        assert_int_equal(asked(S_CREATE_SESSION), 2 + i);
    }
    assert_int_equal(atomic_load(&session_server.alive), 1); /* those before were ended */
    fail_next(S_WRITE, NFS4ERR_EXPIRED, 1); /* nor is it SEQUENCE, always, that finds it out */
    write_block(1, &done);
    read_block(1);
}

SESSION_TEST(a_copy_that_a_lost_session_refuses_may_have_been_carried_out)
{
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.death, SERVER_DIES_AFTER);
    atomic_store(&session_server.deaths, 1);
    /* The server forgets the session between the first copy and the second. */
    atomic_store(&session_server.forget_after_death, true);
    write_block(2, &done);
    assert_true(done.unsettled);
    assert_true(done.repeated);
}

/* ---- servers that err ---- */

SESSION_TEST(an_answer_to_another_call_is_none_and_ends_the_use_of_the_slot)
{
    struct nfs_attr attr;
    struct nfs_wcc wcc;
    bool unsettled;
    const struct nfs_sattr size = {.set_size = true, .size = 100};
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    for (int lie = SERVER_OTHER_SLOT; lie <= SERVER_OTHER_SESSION; lie++) {
        atomic_store(&session_server.lie, lie);
        assert_int_equal(nfs_setattr(&session_client, &root, &size, &wcc, &unsettled), -EBADMSG);
        assert_true(unsettled); /* what became of it is not known */
        assert_int_equal(__builtin_popcountll(session_client.session->lost), lie);
        assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    }
    atomic_store(&session_server.highest_lie, 1000); /* more slots than there can be */
    for (int i = 0; i < 3; i++)
        assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
    assert_true(session_client.session->granted <= NFS4_SLOTS);
}

SESSION_TEST(a_session_that_is_of_no_use_is_refused)
{
    struct nfs_attr attr;
    atomic_store(&session_server.slots, 0);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EPROTO);
    atomic_store(&session_server.slots, SERVER_SLOTS);
    atomic_store(&session_server.response_max, 1000);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EPROTO);
    assert_int_equal(atomic_load(&session_server.alive), 0);
    atomic_store(&session_server.response_max, SERVER_FILE);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
}

SESSION_TEST(a_server_without_this_minor_version_is_refused)
{
    struct nfs_attr attr;
    atomic_store(&session_server.minor_wrong, true);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EPROTONOSUPPORT);
}

SESSION_TEST(an_owner_that_is_another_clients_is_refused)
{
    struct nfs_attr attr;
    fail_next(S_CREATE_SESSION, NFS4ERR_CLID_INUSE, 1);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EBUSY);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), 0);
}

/* While none can be made, what reads and writes is told so, as all else is. */
SESSION_TEST(without_a_session_reading_and_writing_fail_too)
{
    struct nfs_transfer done;
    struct nfs_attr attr;
    uint8_t data[BLOCK] = {0};
    write_block(1, &done);
    fail_next(S_CREATE_SESSION, NFS4ERR_CLID_INUSE, 1000000);
    session_client.timeout_ms = 0;
    atomic_store(&session_server.forget, true);
    assert_int_equal(transfer(true, 0, data, BLOCK, &done), -EBUSY);
    assert_int_equal(transfer(false, 0, data, BLOCK, &done), -EBUSY);
    assert_int_equal(nfs_getattr(&session_client, &session_file, &attr), -EBUSY);
    fail_next(S_CREATE_SESSION, NFS4ERR_SERVERFAULT, 5); /* that may pass */
    read_block(1);
}

enum { SOFT_MS = 300 };

SESSION_TEST(a_soft_mount_is_not_put_off_for_ever)
{
    static const struct {
        uint32_t op, status;
        int error;
    } puts_off[] = {{S_SEQUENCE, NFS4ERR_DELAY, -ETIMEDOUT},
                    {S_SEQUENCE, NFS4ERR_BADSESSION, -EIO}, /* each that is made is bad */
                    {S_CREATE_SESSION, NFS4ERR_DELAY, -ETIMEDOUT},
                    {S_PUTFH, NFS4ERR_DELAY, -ETIMEDOUT},
                    {S_PUTFH, NFS4ERR_DEADSESSION, -ETIMEDOUT}};
    struct nfs_transfer done;
    struct nfs_attr attr;
    uint8_t data[BLOCK] = {0};
    write_block(1, &done);
    for (unsigned i = 0; i < sizeof(puts_off) / sizeof(puts_off[0]); i++) {
        session_client.timeout_ms = puts_off[i].error == -EIO ? TIMEOUT_MS : SOFT_MS;
        fail_next(puts_off[i].op, puts_off[i].status, 1000000);
        atomic_store(&session_server.forget, puts_off[i].op == S_CREATE_SESSION);
        assert_int_equal(transfer(true, 0, data, BLOCK, &done), puts_off[i].error);
        assert_int_equal(transfer(false, 0, data, BLOCK, &done), puts_off[i].error);
        assert_int_equal(nfs_getattr(&session_client, &session_file, &attr), puts_off[i].error);
    }
    fail_next(S_PUTFH, NFS4ERR_DELAY, 0);
    session_client.timeout_ms = TIMEOUT_MS;
    read_block(1);
}

static void *ask_hard(void *result)
{
    struct nfs_client hard = session_client;
    struct nfs_attr attr;
    hard.timeout_ms = 0;
    *(int *)result = nfs_getattr(&hard, &session_file, &attr);
    return NULL;
}

SESSION_TEST(who_waits_for_another_thread_to_make_the_session_does_not_for_ever)
{
    struct nfs_client soft = session_client;
    struct nfs_attr attr;
    pthread_t thread;
    int result = -1;
    fail_next(S_CREATE_SESSION, NFS4ERR_DELAY, 1000000);
    assert_int_equal(pthread_create(&thread, NULL, ask_hard, &result), 0);
    while (asked(S_CREATE_SESSION) == 0)
        usleep(1000);
    soft.timeout_ms = SOFT_MS;
    assert_int_equal(nfs_getattr(&soft, &session_file, &attr), -ETIMEDOUT);
    fail_next(S_CREATE_SESSION, NFS4ERR_DELAY, 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
}

SESSION_TEST(a_server_that_forgets_at_once_does_not_hang_the_caller)
{
    struct nfs_attr attr;
    fail_next(S_CREATE_SESSION, NFS4ERR_STALE_CLIENTID, 100);
    assert_int_equal(nfs_getattr(&session_client, &root, &attr), -EIO);
}

/* ---- fork ---- */

SESSION_TEST(after_fork_the_child_has_a_session_of_its_own)
{
    struct nfs_attr attr;
    struct nfs_transfer done;
    int status;
    write_block(1, &done);
    pid_t child = fork();
    if (child == 0) {
        rpc_after_fork(session_client.server);
        net_server_after_fork(session_client.server);
        nfs4_session_after_fork(session_client.session);
        bool good = nfs_getattr(&session_client, &session_file, &attr) == 0;
        nfs4_session_end(&session_client);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&session_server.clients), 2);
    read_block(1);
    assert_int_equal(asked(S_CREATE_SESSION), 2); /* the parent's is as it was */
}

int main(void)
{
    return unit_run(NULL, NULL);
}
