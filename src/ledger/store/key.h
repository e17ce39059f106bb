/*
 * What a file is for the processes of a host: the key that its entry has. And how long a write of
 * it may be.
 */
#ifndef LEDGER_KEY_H
#define LEDGER_KEY_H

#include <stdint.h>

enum { LEDGER_HANDLE_MAX = 128 };

/* A bit of `server`: with another server it is another file, though device, inode and handle are
 * the same. */
#define LEDGER_APART (UINT64_C(1) << 63)
/* Bits of it: a hash of the server's address, as the kernel's table of mounts has it. A device has
 * the same in all processes, but after an unmount its number may be given to another server's. */
#define LEDGER_ADDRESS (UINT64_C(0x3fff) << 48)
/* In it: asked for in the other version of NFS, in which its handle is another one. */
#define LEDGER_SECOND (UINT64_C(1) << 62)

/*
 * A file is its server's handle. Device and inode number, as the kernel shows them, only tell where
 * to look for it: several files may have one number, as those of subvolumes and snapshots, and one
 * that was removed and one that got its number.
 */
struct ledger_file_key {
    uint64_t device;
    uint64_t inode;
    uint64_t server; /* hash of server and export as the nfstab names them; see LEDGER_APART */
    uint64_t root;   /* hash of the export's root handle when the file's handle was got */
    uint32_t handle_length;
    uint8_t handle[LEDGER_HANDLE_MAX];
};

enum { LEDGER_WRITE_MAX = 1 << 20, LEDGER_WRITE_VECTORS = LEDGER_WRITE_MAX / 8192 + 20 };

#endif
