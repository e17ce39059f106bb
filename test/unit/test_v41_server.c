/*
 * Does the server of v41_server.h, against which the client of NFS version 4.1 is tested, answer as
 * RFC 8881 says?
 */
#include "v41_peer.h"

/* A server with one file, and a client with a session. */
struct scene {
    struct v41_server *server;
    struct v41_control *control;
    struct peer peer;
    struct client client;
    struct session session;
    struct handle file;
};

static struct scene scene;

static int scene_begin(void **state)
{
    (void)state;
    alarm(600);
    memset(&scene, 0, sizeof(scene));
    scene.server = v41_server_start(NULL, INADDR_ANY, 0);
    scene.control = scene.server->control;
    v41_node_at(&scene.server->state.store, "/file");
    scene.peer = peer_new(scene.server);
    scene.client = exchange_id(&scene.peer, "client", 1);
    scene.session = create_session(&scene.peer, &scene.client, 8);
    scene.file = look_up(&scene.peer, &scene.session, "file");
    return 0;
}

static int scene_end(void **state)
{
    (void)state;
    close(scene.peer.fd);
    v41_server_stop(scene.server);
    alarm(0);
    return 0;
}

#define SERVER_TEST(name) UNIT_TEST_WITH(name, scene_begin, scene_end)

/* A WRITE on slot 1, as it is sent once or again. */
static struct bytes writing(uint32_t sequence, bool keep, const char *text)
{
    struct bytes out = sequenced(&scene.session, 1, sequence, keep, 2);
    put_fh(&out, &scene.file);
    put_write(&out, anonymous, 0, 2, text);
    return out;
}

/* One operation without arguments but these words, without a session. */
static struct bytes alone(uint32_t op, const uint32_t *words, unsigned count)
{
    struct bytes out = compound(1);
    put_word(&out, op);
    for (unsigned i = 0; i < count; i++)
        put_word(&out, words[i]);
    return out;
}

static void assert_sequence_fails(struct peer *peer, uint32_t slot, uint32_t sequence,
                                  uint32_t highest, uint32_t status)
{
    struct bytes out = sequenced(&scene.session, slot, sequence, false, 0);
    v41_set_word(out.data + out.length - 8, highest);
    struct answer answer = ask(peer, &out);
    assert_int_equal(answer.count, 1);
    answer_fails(&answer, V41_SEQUENCE, status);
    answer_ends(&answer);
}

SERVER_TEST(files_are_written_read_and_cut)
{
    uint64_t verifier;
    assert_int_equal(write_text(&scene.peer, &scene.session, 0, &scene.file, 0, "hello", &verifier),
                     0);
    assert_text(&scene.peer, &scene.session, &scene.file, "hello");
    struct bytes out = next_on(&scene.session, 0, 3);
    put_fh(&out, &scene.file);
    put_word(&out, V41_SETATTR);
    v41_put_fixed(&out, anonymous, 16);
    const uint32_t size[] = {1, 1 << 4, 8, 0, 4};
    for (int i = 0; i < 5; i++)
        put_word(&out, size[i]);
    put_word(&out, V41_GETATTR);
    const uint32_t asked[] = {2, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 20, 1 << 23};
    for (int i = 0; i < 3; i++)
        put_word(&out, asked[i]);
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_op(&answer, V41_PUTFH);
    answer_op(&answer, V41_SETATTR);
    assert_int_equal(v41_u32(&answer.in), 1);
    assert_int_equal(v41_u32(&answer.in), 1 << 4);
    answer_op(&answer, V41_GETATTR);
    for (int i = 0; i < 3; i++)
        assert_int_equal(v41_u32(&answer.in), asked[i]);
    assert_int_equal(v41_u32(&answer.in), 4 + 8 + 8 + 8 + 8);
    assert_int_equal(v41_u32(&answer.in), 1); /* NF4REG */
    v41_u64(&answer.in);
    assert_int_equal(v41_u64(&answer.in), 4);
    assert_int_equal(v41_u64(&answer.in), v41_u64(&answer.in)); /* fileid, mounted on */
    answer_ends(&answer);
    assert_text(&scene.peer, &scene.session, &scene.file, "hell");
    assert_int_equal(scene.control->bad_calls, 0);
}

/* RFC 8881 section 2.10.6: exactly once, whichever connection it comes on. */
SERVER_TEST(a_call_that_comes_again_is_not_executed_again)
{
    uint64_t verifier;
    struct peer other = peer_new(scene.server);
    struct bytes out = writing(1, true, "first");
    struct answer first = ask(&scene.peer, &out);
    write_text(&scene.peer, &scene.session, 0, &scene.file, 2, "newer", &verifier);
    out = writing(1, true, "first");
    struct answer again = ask(&other, &out);
    assert_int_equal(first.in.end - first.data, again.in.end - again.data);
    assert_memory_equal(first.data, again.data, (size_t)(again.in.end - again.data));
    answer_free(&first);
    answer_free(&again);
    assert_text(&scene.peer, &scene.session, &scene.file, "newer");
    assert_int_equal(scene.control->replays, 1);
    assert_int_equal(scene.control->writes[2], 2);
    /* Once the slot has gone on, the old one is refused. */
    out = writing(2, true, "third");
    again = ask(&other, &out);
    assert_int_equal(again.status, V41_OK);
    answer_free(&again);
    out = writing(1, true, "first");
    again = ask(&scene.peer, &out);
    answer_fails(&again, V41_SEQUENCE, V41_SEQ_MISORDERED);
    answer_ends(&again);
    assert_sequence_fails(&scene.peer, 1, 4, 1, V41_SEQ_MISORDERED);
    assert_text(&scene.peer, &scene.session, &scene.file, "third");
    close(other.fd);
}

SERVER_TEST(what_was_not_to_be_kept_is_told_so)
{
    struct bytes out = writing(1, false, "first");
    struct answer answer = ask(&scene.peer, &out);
    assert_int_equal(answer.status, V41_OK);
    answer_free(&answer);
    out = writing(1, false, "first");
    answer = ask(&scene.peer, &out);
    assert_int_equal(answer.count, 2);
    answer_sequence(&answer, &scene.session, 1, 1);
    answer_fails(&answer, V41_PUTFH, V41_RETRY_UNCACHED_REP);
    answer_ends(&answer);
    assert_int_equal(scene.control->writes[2], 1);
}

SERVER_TEST(another_call_with_the_numbers_of_the_last_is_a_false_retry)
{
    struct bytes out = writing(1, true, "first");
    struct answer answer = ask(&scene.peer, &out);
    answer_free(&answer);
    out = writing(1, true, "other");
    answer = ask(&scene.peer, &out);
    answer_fails(&answer, V41_SEQUENCE, V41_SEQ_FALSE_RETRY);
    answer_ends(&answer);
    assert_text(&scene.peer, &scene.session, &scene.file, "first");
}

SERVER_TEST(operations_have_their_places)
{
    struct bytes out = alone(V41_PUTROOTFH, NULL, 0);
    struct answer answer = ask(&scene.peer, &out);
    answer_fails(&answer, V41_PUTROOTFH, V41_OP_NOT_IN_SESSION);
    answer_ends(&answer);
    uint8_t sequence[36];
    out = next_on(&scene.session, 0, 1);
    memcpy(sequence, out.data + 12, sizeof(sequence));
    v41_put_fixed(&out, sequence, sizeof(sequence)); /* SEQUENCE once more */
    answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_fails(&answer, V41_SEQUENCE, V41_SEQUENCE_POS);
    answer_ends(&answer);
    out = next_on(&scene.session, 0, 1);
    put_word(&out, 4711);
    answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_fails(&answer, V41_ILLEGAL, V41_OP_ILLEGAL);
    answer_ends(&answer);
    out = compound(0);
    v41_set_word(out.data + 4, 0);
    answer = ask(&scene.peer, &out);
    assert_int_equal(answer.status, V41_MINOR_VERS_MISMATCH);
    assert_int_equal(answer.count, 0);
    answer_ends(&answer);
    out = create_session_call(&scene.client, 1);
    v41_set_word(out.data + 8, 2);
    answer = ask(&scene.peer, &out);
    answer_fails(&answer, V41_CREATE_SESSION, V41_NOT_ONLY_OP);
    answer_ends(&answer);
}

SERVER_TEST(slots_that_were_not_granted_are_refused)
{
    atomic_store(&scene.control->slots, 2);
    scene.session = create_session(&scene.peer, &scene.client, 8);
    assert_int_equal(scene.session.slots, 2);
    assert_sequence_fails(&scene.peer, 2, 1, 2, V41_BADSLOT);
    assert_sequence_fails(&scene.peer, 1, 1, 2, V41_BAD_HIGH_SLOT);
    assert_sequence_fails(&scene.peer, 1, 0, 1, V41_SEQ_MISORDERED);
    scene.session.id[3] ^= 1;
    assert_sequence_fails(&scene.peer, 0, 1, 0, V41_BADSESSION);
}

/* RFC 8881 section 18.36.3: the answer to the last CREATE_SESSION is kept. */
SERVER_TEST(a_session_is_made_once)
{
    struct bytes out = create_session_call(&scene.client, 4);
    struct answer first = ask(&scene.peer, &out);
    out = create_session_call(&scene.client, 4);
    struct answer again = ask(&scene.peer, &out);
    assert_memory_equal(first.data, again.data, (size_t)(first.in.end - first.data));
    assert_int_equal(scene.control->sessions, 2);
    answer_free(&first);
    answer_free(&again);
    scene.client.sequence += 2;
    out = create_session_call(&scene.client, 4);
    again = ask(&scene.peer, &out);
    answer_fails(&again, V41_CREATE_SESSION, V41_SEQ_MISORDERED);
    answer_ends(&again);
}

/* RFC 8881 section 18.35.4. */
SERVER_TEST(another_start_of_a_client_ends_the_sessions_of_the_former_one)
{
    struct client same = exchange_id(&scene.peer, "client", 1);
    assert_int_equal(same.id, scene.client.id);
    assert_true(same.flags & 0x80000000u);
    struct client next = exchange_id(&scene.peer, "client", 2);
    assert_int_not_equal(next.id, scene.client.id);
    assert_false(next.flags & 0x80000000u);
    assert_text(&scene.peer, &scene.session, &scene.file, ""); /* nothing has been confirmed */
    struct session session = create_session(&scene.peer, &next, 1);
    assert_sequence_fails(&scene.peer, 0, scene.session.sequences[0] + 1, 0, V41_BADSESSION);
    assert_text(&scene.peer, &session, &scene.file, "");
    struct bytes out = create_session_call(&scene.client, 1);
    struct answer answer = ask(&scene.peer, &out);
    answer_fails(&answer, V41_CREATE_SESSION, V41_STALE_CLIENTID);
    answer_ends(&answer);
}

SERVER_TEST(a_client_id_outlives_its_sessions)
{
    const uint32_t id[] = {(uint32_t)(scene.client.id >> 32), (uint32_t)scene.client.id};
    struct bytes out = alone(V41_DESTROY_CLIENTID, id, 2);
    struct answer answer = ask(&scene.peer, &out);
    answer_fails(&answer, V41_DESTROY_CLIENTID, V41_CLIENTID_BUSY);
    answer_ends(&answer);
    out = compound(1);
    put_word(&out, V41_DESTROY_SESSION);
    v41_put_fixed(&out, scene.session.id, 16);
    answer = ask(&scene.peer, &out);
    answer_op(&answer, V41_DESTROY_SESSION);
    answer_ends(&answer);
    out = alone(V41_DESTROY_CLIENTID, id, 2);
    answer = ask(&scene.peer, &out);
    answer_op(&answer, V41_DESTROY_CLIENTID);
    answer_ends(&answer);
    assert_int_equal(scene.control->clients, 0);
    assert_int_equal(scene.control->sessions, 0);
}

static void reclaim_complete(uint32_t status)
{
    struct bytes out = next_on(&scene.session, 0, 1);
    put_word(&out, V41_RECLAIM_COMPLETE);
    put_word(&out, 0);
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_fails(&answer, V41_RECLAIM_COMPLETE, status);
    answer_ends(&answer);
}

SERVER_TEST(reclaiming_is_completed_once)
{
    reclaim_complete(V41_OK);
    reclaim_complete(V41_COMPLETE_ALREADY);
}

SERVER_TEST(a_loss_of_power_takes_what_was_not_committed)
{
    uint64_t before, after;
    write_text(&scene.peer, &scene.session, 0, &scene.file, 2, "stable", &before);
    write_text(&scene.peer, &scene.session, 0, &scene.file, 0, "UNST", &after);
    assert_int_equal(before, after);
    assert_text(&scene.peer, &scene.session, &scene.file, "UNSTle");
    v41_lose_power(scene.server);
    struct answer answer;
    uint32_t xid;
    assert_false(peer_receive(&scene.peer, &answer, &xid));
    close(scene.peer.fd);
    scene.peer = peer_new(scene.server);
    assert_sequence_fails(&scene.peer, 0, 9, 0, V41_BADSESSION);
    scene.client = exchange_id(&scene.peer, "client", 1);
    scene.session = create_session(&scene.peer, &scene.client, 8);
    assert_text(&scene.peer, &scene.session, &scene.file, "stable");
    write_text(&scene.peer, &scene.session, 0, &scene.file, 0, "kept", &after);
    assert_int_not_equal(before, after);
    struct bytes out = next_on(&scene.session, 0, 2);
    put_fh(&out, &scene.file);
    put_word(&out, V41_COMMIT);
    v41_put64(&out, 0);
    put_word(&out, 0);
    answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_op(&answer, V41_PUTFH);
    answer_op(&answer, V41_COMMIT);
    assert_memory_equal(v41_take(&answer.in, 8), &after, 8);
    answer_ends(&answer);
    v41_lose_power(scene.server);
    close(scene.peer.fd);
    scene.peer = peer_new(scene.server);
    scene.client = exchange_id(&scene.peer, "client", 1);
    scene.session = create_session(&scene.peer, &scene.client, 8);
    assert_text(&scene.peer, &scene.session, &scene.file, "keptle");
}

/* OPEN by handle; its state, or the status of the operation that failed. */
static uint32_t open_file(uint32_t share, uint8_t stateid[16])
{
    struct bytes out = next_on(&scene.session, 0, 2);
    put_fh(&out, &scene.file);
    put_word(&out, V41_OPEN);
    put_word(&out, 0);
    put_word(&out, share);
    put_word(&out, 0);
    v41_put64(&out, scene.client.id);
    v41_put_opaque(&out, "opener", 6);
    put_word(&out, 0); /* OPEN4_NOCREATE */
    put_word(&out, 4); /* CLAIM_FH */
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    uint32_t status = answer.status;
    answer_op(&answer, V41_PUTFH);
    v41_take(&answer.in, 8);
    if (status == V41_OK) {
        memcpy(stateid, v41_take(&answer.in, 16), 16);
        v41_take(&answer.in, 4 + 8 + 8 + 4);
        assert_int_equal(v41_u32(&answer.in), 0); /* no attributes were set */
        assert_int_equal(v41_u32(&answer.in), 0); /* no delegation */
    }
    answer_ends(&answer);
    return status;
}

static uint32_t write_with(const uint8_t *stateid)
{
    struct bytes out = next_on(&scene.session, 0, 2);
    put_fh(&out, &scene.file);
    put_write(&out, stateid, 0, 2, "text");
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    uint32_t status = answer.status;
    answer_free(&answer);
    return status;
}

SERVER_TEST(a_server_may_insist_on_open)
{
    uint8_t stateid[16];
    atomic_store(&scene.control->insist_open, true);
    atomic_store(&scene.control->grace, true);
    assert_int_equal(write_with(anonymous), V41_BAD_STATEID);
    assert_int_equal(open_file(3, stateid), V41_GRACE);
    atomic_store(&scene.control->grace, false);
    assert_int_equal(open_file(3, stateid), V41_GRACE);
    reclaim_complete(V41_OK);
    assert_int_equal(open_file(1, stateid), V41_OK);
    assert_int_equal(write_with(stateid), V41_OPENMODE);
    assert_int_equal(open_file(3, stateid), V41_OK);
    assert_int_equal(write_with(stateid), V41_OK);
    struct bytes out = next_on(&scene.session, 0, 2);
    put_fh(&out, &scene.file);
    put_word(&out, V41_CLOSE);
    put_word(&out, 0);
    v41_put_fixed(&out, stateid, 16);
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_op(&answer, V41_PUTFH);
    answer_op(&answer, V41_CLOSE);
    v41_take(&answer.in, 16);
    answer_ends(&answer);
    assert_int_equal(write_with(stateid), V41_BAD_STATEID);
    assert_int_equal(scene.control->opens, 0);
}

/* The connection has ended: nothing was answered. */
static void assert_ended(struct peer *peer)
{
    struct answer answer;
    uint32_t xid;
    assert_false(peer_receive(peer, &answer, &xid));
    close(peer->fd);
    *peer = peer_new(scene.server);
}

SERVER_TEST(connections_end_where_a_test_wants_it)
{
    struct bytes out = writing(1, true, "first");
    atomic_store(&scene.control->drop_before[V41_WRITE], 1);
    peer_send(&scene.peer, &out);
    assert_ended(&scene.peer);
    assert_int_equal(scene.control->writes[2], 0);
    atomic_store(&scene.control->drop_after[V41_WRITE], 1);
    peer_send(&scene.peer, &out);
    assert_ended(&scene.peer);
    atomic_store(&scene.control->cut_reply, 30);
    peer_send(&scene.peer, &out);
    assert_ended(&scene.peer);
    atomic_store(&scene.control->cut_call, 30);
    peer_send(&scene.peer, &out);
    assert_ended(&scene.peer);
    struct answer answer = ask(&scene.peer, &out);
    assert_int_equal(answer.status, V41_OK);
    answer_free(&answer);
    assert_int_equal(scene.control->writes[2], 1);
    assert_int_equal(scene.control->replays, 2);
}

SERVER_TEST(what_is_held_is_executed_and_answered_later)
{
    for (int executed = 0; executed < 2; executed++) {
        struct answer answer;
        uint32_t xid, first = scene.peer.xid + 1;
        unsigned writes = scene.control->writes[2];
        atomic_store(executed ? &scene.control->hold_replies : &scene.control->hold_calls,
                     UINT64_C(1) << V41_WRITE);
        for (uint32_t slot = 1; slot < 3; slot++) {
            struct bytes out = next_on(&scene.session, slot, 2);
            put_fh(&out, &scene.file);
            put_write(&out, anonymous, 0, 2, "text");
            peer_send(&scene.peer, &out);
            free(out.data);
        }
        assert_text(&scene.peer, &scene.session, &scene.file, executed ? "text" : "");
        assert_int_equal(scene.control->held, 2);
        assert_int_equal(scene.control->writes[2] - writes, executed ? 2 : 0);
        v41_release(scene.server, true);
        for (uint32_t i = 0; i < 2; i++) {
            assert_true(peer_receive(&scene.peer, &answer, &xid));
            assert_int_equal(xid, first + 1 - i);
            assert_int_equal(answer.status, V41_OK);
            answer_free(&answer);
        }
        assert_int_equal(scene.control->writes[2] - writes, 2);
    }
}

SERVER_TEST(an_operation_fails_as_a_test_wants_it)
{
    atomic_store(&scene.control->fail_status[V41_WRITE], V41_DELAY);
    atomic_store(&scene.control->fail_count[V41_WRITE], 1);
    assert_int_equal(write_with(anonymous), V41_DELAY);
    assert_int_equal(write_with(anonymous), V41_OK);
    /* What SEQUENCE refuses has not used the slot. */
    atomic_store(&scene.control->fail_status[V41_SEQUENCE], V41_DELAY);
    atomic_store(&scene.control->fail_count[V41_SEQUENCE], 1);
    uint32_t next = scene.session.sequences[0] + 1;
    assert_sequence_fails(&scene.peer, 0, next, 0, V41_DELAY);
    assert_int_equal(write_with(anonymous), V41_OK);
    assert_int_equal(scene.session.sequences[0], next);
}

/* As nfs-ganesha: RFC 8881 section 2.10.5 leaves it to the server. */
SERVER_TEST(a_client_may_have_another_id_at_each_address_and_one_session)
{
    atomic_store(&scene.control->by_address, true);
    atomic_store(&scene.control->bind_needed, true);
    scene.client = exchange_id(&scene.peer, "trunk", 1);
    scene.session = create_session(&scene.peer, &scene.client, 8);
    struct peer other = peer_at(scene.server->port, INADDR_LOOPBACK + 1);
    struct client second = exchange_id(&other, "trunk", 1);
    assert_int_not_equal(second.id, scene.client.id);
    assert_sequence_fails(&other, 0, 1, 0, V41_CONN_NOT_BOUND);
    struct bytes out = compound(1);
    put_word(&out, V41_BIND_CONN_TO_SESSION);
    v41_put_fixed(&out, scene.session.id, 16);
    put_word(&out, 3); /* CDFC4_FORE_OR_BOTH */
    put_word(&out, 0);
    struct answer answer = ask(&other, &out);
    answer_op(&answer, V41_BIND_CONN_TO_SESSION);
    assert_memory_equal(v41_take(&answer.in, 16), scene.session.id, 16);
    assert_int_equal(v41_u32(&answer.in), 1);
    assert_int_equal(v41_u32(&answer.in), 0);
    answer_ends(&answer);
    assert_text(&other, &scene.session, &scene.file, "");
    close(other.fd);
}

SERVER_TEST(handles_go_stale)
{
    atomic_fetch_add(&scene.control->handles, 1);
    struct bytes out = next_on(&scene.session, 0, 1);
    put_fh(&out, &scene.file);
    struct answer answer = ask_on(&scene.peer, &scene.session, 0, &out);
    answer_fails(&answer, V41_PUTFH, V41_STALE);
    answer_ends(&answer);
    atomic_store(&scene.control->handle_length, 128);
    struct handle file = look_up(&scene.peer, &scene.session, "file");
    assert_int_equal(file.length, 128);
    assert_text(&scene.peer, &scene.session, &file, "");
}

int main(void)
{
    return unit_run(NULL, NULL);
}
