/* What rooms below fd ask of those above them: see file/upper.h. */
#include "file/upper.h"
#include "async/async.h"
#include "ahead/fetched.h"
#include "fd/world.h"
#include "ahead/buffered.h"

const struct file_upper file_upper = {
    .help = async_help,
    .attend_all = async_attend_all,
    .finish = async_finish,
    .cross = fd_world_cross,
    .demote = fd_world_demote,
    .follow = fd_world_follow,
    .closed = ahead_close,
    .preadv = ahead_preadv,
};
