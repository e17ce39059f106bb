/* See power_lies.h. */
#include "power_lies.h"

/* Of a reply of one fragment, with its mark: RFC 5531, section 9. */
enum {
    AT_XID = 4,
    AT_TYPE = 8,
    AT_ACCEPTED = 12,
    AT_VERIFIER = 16,
    AT_BODY = 20,
    AT_STATE = 24,
    AT_STATUS = 28,
    AT_RESULTS = 32
};

static void lie_mark(struct message *m)
{
    wire_store32(m->data, (uint32_t)(m->length - 4) | RPC_LAST_FRAGMENT);
}

static void lie_word(struct lie *lie, size_t at, uint32_t value)
{
    if (at > 0 && lie->m->length >= at + 4)
        wire_store32(lie->m->data + at, value);
}

static void lie_replace(struct lie *lie, const void *data, size_t length)
{
    free(lie->m);
    lie->m = message_make(data, length);
}

/* `length` bytes more, or fewer, at `at`. */
static void lie_insert(struct lie *lie, size_t at, const void *data, size_t length)
{
    struct message *old = lie->m;
    if (at > old->length)
        return;
    lie->m = need(sizeof *old + old->length + length);
    lie->m->length = old->length + length;
    memcpy(lie->m->data, old->data, at);
    memcpy(lie->m->data + at, data, length);
    memcpy(lie->m->data + at + length, old->data + at, old->length - at);
    free(old);
}

static bool lie_good(const struct lie *lie, uint32_t procedure)
{
    return lie->program == NFS_PROGRAM && lie->procedure == procedure &&
           lie->m->length >= AT_RESULTS + 4 && wire_load32(lie->m->data + AT_STATUS) == NFS_OK;
}

/* Where the flag is that says whether attributes follow; 0: nowhere. */
static size_t lie_flag(const struct lie *lie)
{
    static const uint32_t first[] = {NFS_READ, NFS_ACCESS, NFS_FSINFO},
                          wcc[] = {NFS_WRITE, NFS_COMMIT, NFS_SETATTR};
    for (unsigned i = 0; i < 3; i++) {
        if (lie_good(lie, first[i]))
            return AT_RESULTS;
        if (lie_good(lie, wcc[i]))
            return AT_RESULTS + 4 + (wire_load32(lie->m->data + AT_RESULTS) ? 24 : 0);
    }
    if (lie_good(lie, NFS_LOOKUP))
        return AT_RESULTS + 4 + ((wire_load32(lie->m->data + AT_RESULTS) + 3) & ~3u);
    return 0;
}

/* Word `index` of the attributes: 0 type, 5 and 6 size, 13 and 14 number. 0: there are none. */
static size_t lie_attribute(const struct lie *lie, size_t index)
{
    size_t flag = lie_flag(lie);
    if (lie_good(lie, NFS_GETATTR))
        return AT_RESULTS + 4 * index;
    if (flag == 0 || flag + 4 + NFS_FATTR_BYTES > lie->m->length ||
        wire_load32(lie->m->data + flag) != 1)
        return 0;
    return flag + 4 + 4 * index;
}

/* Word `index` behind the attributes: of READ count, eof, length; of WRITE count, committed,
 * verifier. 0: none. */
static size_t lie_result(const struct lie *lie, uint32_t procedure, size_t index)
{
    size_t flag = lie_good(lie, procedure) ? lie_flag(lie) : 0;
    if (flag == 0)
        return 0;
    return flag + 4 + (wire_load32(lie->m->data + flag) ? NFS_FATTR_BYTES : 0) + 4 * index;
}

static uint32_t lie_old(const struct lie *lie, size_t at)
{
    return at > 0 && lie->m->length >= at + 4 ? wire_load32(lie->m->data + at) : 0;
}

/* A READ that brings `count` bytes, whatever it brought. */
static void lie_read(struct lie *lie, uint32_t count, uint32_t length, bool eof)
{
    size_t at = lie_result(lie, NFS_READ, 0);
    if (at == 0)
        return;
    lie_word(lie, at, count);
    lie_word(lie, at + 4, eof);
    lie_word(lie, at + 8, length);
}

static void lie_read_cut(struct lie *lie, bool half, bool eof)
{
    uint32_t count = lie_old(lie, lie_result(lie, NFS_READ, 0)), left = half ? count / 8 * 4 : 0;
    if (count == 0)
        return;
    lie_read(lie, left, left, eof);
    lie->m->length = lie_result(lie, NFS_READ, 3) + left;
    lie_mark(lie->m);
}

/* It brings them, too. */
static void lie_read_more(struct lie *lie)
{
    unsigned char more[4096];
    uint32_t count = lie_old(lie, lie_result(lie, NFS_READ, 0)) + sizeof more;
    if (lie_result(lie, NFS_READ, 0) == 0)
        return;
    memset(more, 0xa5, sizeof more);
    lie_read(lie, count, count, false);
    lie_insert(lie, lie->m->length, more, sizeof more);
    lie_mark(lie->m);
}

/* Half of the data, but all of them counted. */
static void lie_read_half(struct lie *lie)
{
    size_t at = lie_result(lie, NFS_READ, 0);
    uint32_t count = lie_old(lie, at);
    lie_read_cut(lie, true, false);
    lie_word(lie, at, count);
}

static void lie_fragments(struct lie *lie, unsigned count, size_t each)
{
    size_t size = count * (4 + each);
    unsigned char *bytes = need(size);
    for (unsigned i = 0; i < count; i++)
        wire_store32(bytes + i * (4 + each), (uint32_t)each);
    lie_insert(lie, 0, bytes, size);
    free(bytes);
}

static void lie_duplicate(struct lie *lie)
{
    struct message *copy = message_make(lie->m->data, lie->m->length);
    lie_insert(lie, 0, copy->data, copy->length);
    free(copy);
}

/* The reply to a call that was never made, before the one that was. */
static void lie_uncalled(struct lie *lie)
{
    unsigned char copy[256];
    size_t length = lie->m->length < sizeof copy ? lie->m->length : sizeof copy;
    memcpy(copy, lie->m->data, length);
    wire_store32(copy, (uint32_t)(length - 4) | RPC_LAST_FRAGMENT);
    wire_store32(copy + AT_XID, (uint32_t)random_next(lie->random));
    lie_insert(lie, 0, copy, length);
}

static void lie_garbage(struct lie *lie)
{
    for (size_t i = 0; i + 4 <= lie->m->length; i += 4)
        wire_store32(lie->m->data + i, (uint32_t)random_next(lie->random));
}

/* Of FSINFO: the most and the best for READ and WRITE. */
static void lie_limits(struct lie *lie, uint32_t limit)
{
    size_t flag = lie_good(lie, NFS_FSINFO) ? lie_flag(lie) : 0;
    size_t at = flag + 4 + (flag && wire_load32(lie->m->data + flag) ? NFS_FATTR_BYTES : 0);
    for (unsigned i = 0; flag && i < 6; i++)
        lie_word(lie, at + 4 * i, limit);
}

/* A body of `have` bytes for the verifier, which says that it has `length`. */
static void lie_body(struct lie *lie, uint32_t length, size_t have)
{
    unsigned char body[512];
    memset(body, 0xa5, sizeof body);
    lie_word(lie, AT_VERIFIER, 6);
    lie_word(lie, AT_BODY, length);
    lie_insert(lie, AT_STATE, body, have);
    lie_mark(lie->m);
}

static void lie_cut(struct lie *lie, size_t length, bool honest_mark)
{
    lie->m->length = length < lie->m->length ? length : lie->m->length;
    if (honest_mark)
        lie_mark(lie->m);
}

static void lie_silence(struct lie *lie)
{
    free(lie->m);
    lie->m = NULL;
}

#define OLD(at)    lie_old(lie, at)
#define READ_COUNT OLD(lie_result(lie, NFS_READ, 0))
/* NAME, and what it does to `lie`. "accepted_and_closed" is told before a reply is. */
#define LIES(X)                                                                                \
    X(xid, lie_word(lie, AT_XID, OLD(AT_XID) ^ 0x5a5a))                                        \
    X(mark_long, lie_word(lie, 0, OLD(0) + 4))                                                 \
    X(mark_short, lie_word(lie, 0, OLD(0) - 4))                                                \
    X(mark_huge, lie_word(lie, 0, UINT32_MAX))                                                 \
    X(mark_tiny, lie_word(lie, 0, RPC_LAST_FRAGMENT | 1))                                      \
    X(fragment_huge, lie_word(lie, 0, INT32_MAX))                                              \
    X(fragments_empty, lie_fragments(lie, 50000, 0))                                           \
    X(fragments_endless, lie_fragments(lie, 300000, 4))                                        \
    X(cut_and_closed, (lie_cut(lie, lie->m->length / 2, false), lie->after = AFTER_CLOSE))     \
    X(cut_and_silent, (lie_cut(lie, lie->m->length / 2, false), lie->after = AFTER_MUTE))      \
    X(results_cut, lie_cut(lie, AT_RESULTS, true))                                             \
    X(header_cut, lie_cut(lie, AT_STATE, true))                                                \
    X(verifier_body, lie_body(lie, 32, 32))                                                    \
    X(verifier_long, lie_body(lie, 404, 404))                                                  \
    X(verifier_beyond, lie_body(lie, 400, 0))                                                  \
    X(type_call, lie_word(lie, AT_TYPE, RPC_CALL))                                             \
    X(type_unknown, lie_word(lie, AT_TYPE, 77))                                                \
    X(denied_version, (lie_word(lie, AT_ACCEPTED, RPC_DENIED), lie_word(lie, AT_VERIFIER, 0))) \
    X(denied_auth, (lie_word(lie, AT_ACCEPTED, RPC_DENIED), lie_word(lie, AT_VERIFIER, 1)))    \
    X(denied_unknown, (lie_word(lie, AT_ACCEPTED, RPC_DENIED), lie_word(lie, AT_VERIFIER, 9))) \
    X(accepted_unknown, lie_word(lie, AT_ACCEPTED, 2))                                         \
    X(program_unavailable, lie_word(lie, AT_STATE, RPC_PROG_UNAVAIL))                          \
    X(program_mismatch, lie_word(lie, AT_STATE, RPC_PROG_MISMATCH))                            \
    X(procedure_unavailable, lie_word(lie, AT_STATE, RPC_PROC_UNAVAIL))                        \
    X(garbage_arguments, lie_word(lie, AT_STATE, 4))                                           \
    X(system_error, lie_word(lie, AT_STATE, 5))                                                \
    X(state_unknown, lie_word(lie, AT_STATE, 99))                                              \
    X(web_server,                                                                              \
      (lie_replace(lie, "HTTP/1.1 400 Bad Request\r\n\r\n", 28), lie->after = AFTER_CLOSE))    \
    X(random_bytes, lie_garbage(lie))                                                          \
    X(zeros, memset(lie->m->data, 0, lie->m->length))                                          \
    X(closed, (lie_silence(lie), lie->after = AFTER_CLOSE))                                    \
    X(silence, lie_silence(lie))                                                               \
    X(uncalled, lie_uncalled(lie))                                                             \
    X(duplicate, lie_duplicate(lie))                                                           \
    X(drip, lie->after = AFTER_DRIP)                                                           \
    X(accepted_and_closed, (void)lie)                                                          \
    X(status_unknown, lie_word(lie, AT_STATUS, 12345))                                         \
    X(attributes_of_a_directory, lie_word(lie, lie_attribute(lie, 0), 2))                      \
    X(attributes_of_no_type, lie_word(lie, lie_attribute(lie, 0), 99))                         \
    X(attributes_of_another,                                                                   \
      lie_word(lie, lie_attribute(lie, 14), OLD(lie_attribute(lie, 14)) + 1))                  \
    X(attributes_perhaps, lie_word(lie, lie_flag(lie), 2))                                     \
    X(size_huge, lie_word(lie, lie_attribute(lie, 5), UINT32_MAX))                             \
    X(size_zero, lie_word(lie, lie_attribute(lie, 6), 0))                                      \
    X(read_more_than_asked, lie_read_more(lie))                                                \
    X(read_beyond_the_record, lie_read(lie, READ_COUNT, UINT32_MAX, false))                    \
    X(read_two_counts, lie_read_half(lie))                                                     \
    X(read_nothing, lie_read_cut(lie, false, false))                                           \
    X(read_less, lie_read_cut(lie, true, false))                                               \
    X(read_less_and_eof, lie_read_cut(lie, true, true))                                        \
    X(write_nothing, lie_word(lie, lie_result(lie, NFS_WRITE, 0), 0))                          \
    X(write_less,                                                                              \
      lie_word(lie, lie_result(lie, NFS_WRITE, 0), OLD(lie_result(lie, NFS_WRITE, 0)) / 2))    \
    X(write_more,                                                                              \
      lie_word(lie, lie_result(lie, NFS_WRITE, 0), OLD(lie_result(lie, NFS_WRITE, 0)) + 1))    \
    X(committed_unknown, lie_word(lie, lie_result(lie, NFS_WRITE, 1), 3))                      \
    X(committed_weaker, lie_word(lie, lie_result(lie, NFS_WRITE, 1), NFS_UNSTABLE))            \
    X(verifier_restless,                                                                       \
      lie_word(lie, lie_result(lie, NFS_WRITE, 3), (uint32_t)random_next(lie->random)))        \
    X(handle_too_long, lie_good(lie, NFS_LOOKUP) ? lie_word(lie, AT_RESULTS, 65) : (void)0)    \
    X(limits_of_zero, lie_limits(lie, 0))                                                      \
    X(limits_without_end, lie_limits(lie, UINT32_MAX))

#define X(name, told)                               \
    static inline void tell_##name(struct lie *lie) \
    {                                               \
        told;                                       \
    }
LIES(X)
#undef X

#define X(name, told) {#name, tell_##name},
static const struct {
    const char *name;
    void (*tell)(struct lie *lie);
} lies[] = {LIES(X)};
#undef X

enum { LIE_COUNT = sizeof lies / sizeof *lies, NO_LIE = LIE_COUNT };

static unsigned lie_chosen = NO_LIE, lie_percent;

const char *lie_name(unsigned index)
{
    return index < LIE_COUNT ? lies[index].name : NULL;
}

void lie_tell(struct lie *lie)
{
    lies[lie_chosen].tell(lie);
}

bool lie_now(uint64_t *random)
{
    return lie_chosen != NO_LIE && random_next(random) % 100 < lie_percent;
}

bool lie_now_at_accept(uint64_t *random)
{
    return lie_chosen != NO_LIE && lies[lie_chosen].tell == tell_accepted_and_closed &&
           lie_now(random);
}

bool lie_choose(const char *name, unsigned percent)
{
    lie_percent = percent;
    for (lie_chosen = 0; lie_chosen < LIE_COUNT; lie_chosen++) {
        if (strcmp(name, lies[lie_chosen].name) == 0)
            return true;
    }
    return strcmp(name, "truth") == 0;
}
