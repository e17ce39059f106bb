/* What the rooms below are given by those above: see upper.h. */
#include "file/upper.h"
#include "file/async.h"
#include "file/fetched.h"
#include "file/world.h"

const struct file_upper file_upper = {
    .help = file_async_help,
    .attend_all = file_async_attend_all,
    .finish = file_async_finish,
    .cross = file_world_cross,
    .demote = file_inode_demote,
    .follow = file_inode_follow,
    .closed = file_ahead_close,
    .preadv = file_preadv,
};
