/* See request.h. */
#include "request.h"

static bool get_credential(struct wire_reader *r, struct credential *who)
{
    uint32_t flavour = wire_get32(r), length;
    const unsigned char *body = wire_get_opaque(r, RPC_AUTH_MAX, &length);
    *who = (struct credential){.uid = 65534, .gid = 65534};
    if (!body || flavour != RPC_AUTH_SYS)
        return body != NULL;
    struct wire_reader b = {body, body + length, false};
    wire_get32(&b);
    wire_get_opaque(&b, 255, &length);
    who->uid = wire_get32(&b);
    who->gid = wire_get32(&b);
    who->groups = wire_get32(&b);
    if (who->groups > 16)
        return false;
    for (uint32_t i = 0; i < who->groups; i++)
        who->group[i] = wire_get32(&b);
    return !b.bad;
}

bool request_execute(const unsigned char *record, size_t length, struct wire_writer *w,
                     struct payload *payload)
{
    struct wire_reader args = {record, record + length, false};
    struct credential who;
    uint32_t verifier_length;

    uint32_t xid = wire_get32(&args), type = wire_get32(&args), version = wire_get32(&args);
    uint32_t program = wire_get32(&args), program_version = wire_get32(&args);
    uint32_t number = wire_get32(&args);
    if (!get_credential(&args, &who))
        return false;
    wire_get32(&args);
    wire_get_opaque(&args, RPC_AUTH_MAX, &verifier_length);
    if (args.bad || type != RPC_CALL)
        return false;

    bool mount = program == MOUNT_PROGRAM, v41 = !mount && program_version == V41_VERSION;
    wire_put32(w, 0);
    wire_put32(w, xid);
    wire_put32(w, RPC_REPLY);
    if (version != RPC_VERSION) {
        wire_put32(w, RPC_DENIED);
        wire_put32(w, RPC_MISMATCH);
        wire_put32(w, RPC_VERSION);
        wire_put32(w, RPC_VERSION);
    } else {
        wire_put32(w, RPC_ACCEPTED);
        wire_put32(w, RPC_AUTH_NONE);
        wire_put32(w, 0);
        procedure *run = v41     ? (number == V41_NULL       ? do_null
                                    : number == V41_COMPOUND ? do_compound
                                                             : NULL)
                         : mount ? (number < 4 ? mount_procedures[number].run : NULL)
                                 : (number < NFS_PROCEDURES ? nfs_procedures[number].run : NULL);
        if (!mount && program != NFS_PROGRAM) {
            wire_put32(w, RPC_PROG_UNAVAIL);
        } else if (program_version != 3 && !v41) {
            wire_put32(w, RPC_PROG_MISMATCH);
            wire_put32(w, 3);
            wire_put32(w, mount ? 3 : V41_VERSION);
        } else if (!run) {
            wire_put32(w, RPC_PROC_UNAVAIL);
        } else {
            if (!v41)
                (mount ? server.mount_calls : server.nfs_calls)[number]++;
            wire_put32(w, RPC_SUCCESS);
            run(&args, w, &who, payload);
        }
    }
    return !args.bad && !w->bad;
}

void directory_open(const char *directory)
{
    struct statfs fs;
    bool writable;
    if (!realpath(directory, server.real_directory))
        die("%s: %s", directory, strerror(errno));
    int fd = file_open_any(AT_FDCWD, server.real_directory, &writable);
    if (fd < 0 || fstatfs(fd, &fs) < 0)
        die("%s: %s", directory, strerror(errno));
    files_tick();
    int error = file_adopt(fd, false, &files.root);
    if (error)
        die("%s: %s", directory, strerror(-error));
    if (!S_ISDIR(files.root->st.st_mode))
        die("%s: not a directory", directory);
    files.syncing = fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
    server.directory = directory;
}
