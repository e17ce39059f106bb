/*
 * The key of a file, for all processes of a host, and how long a write may be.
 */
#ifndef LEDGER_KEY_H
#define LEDGER_KEY_H

#include <stdint.h>

enum { LEDGER_HANDLE_MAX = 128 };

/* A bit of `server`. With it, a file of another server is another file, even if device, inode and
 * handle are equal. */
#define LEDGER_APART (UINT64_C(1) << 63)
/* Bits of `server`: a hash of the server's address, as the kernel's table of mounts has it. All
 * processes see the same address for a device. After an unmount another server may get the number
 * of the device. */
#define LEDGER_ADDRESS (UINT64_C(0x3fff) << 48)
/* A bit of `server`: the handle is that of the other version of NFS. */
#define LEDGER_SECOND (UINT64_C(1) << 62)

/*
 * The server's handle identifies a file. Device and inode number, as the kernel shows them, only
 * tell where to look for it. Several files may have one number: files of subvolumes and snapshots,
 * or a file that was removed and a later one that got its number.
 */
struct ledger_file_key {
    uint64_t device;
    uint64_t inode;
    uint64_t server; /* hash of server and export, as the nfstab names them; see LEDGER_APART */
    uint64_t root;   /* hash of the export's root handle when the file's handle was got */
    uint32_t handle_length;
    uint8_t handle[LEDGER_HANDLE_MAX];
};

enum { LEDGER_WRITE_MAX = 1 << 20, LEDGER_WRITE_VECTORS = LEDGER_WRITE_MAX / 8192 + 20 };

#endif
