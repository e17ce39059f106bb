/* What the answer to a READ tells besides the data. */
#include "io/told.h"

#include "file/attributes.h"
#include "file/renew.h"
#include "ledger/attributes.h"
#include "ledger/cache.h"

void io_told(struct file_inode *inode, const struct ledger_stamp *stamp, uint64_t asked_ns,
             uint64_t offset, const struct nfs_transfer *transfer)
{
    struct ledger_attributes attributes, known;
    uint64_t verified_ns, epoch = ledger_epoch(stamp->changes, stamp->truncations);
    if (!transfer->attr.present || transfer->two_ends)
        return;
    file_attributes_convert(&transfer->attr.attr, &attributes);
    ledger_cache_told(&inode->entry, epoch, &attributes, asked_ns);
    ledger_file_saw(&inode->entry, epoch, &attributes, asked_ns);
    /* A program that reads the end, or reads first after a lock, asks for the attributes next. */
    if ((transfer->eof && offset + transfer->length == attributes.size) ||
        (ledger_file_attributes(&inode->entry, &known, &verified_ns) &&
         verified_ns < atomic_load_explicit(&inode->opened_ns, memory_order_relaxed)))
        ledger_file_confirmed(&inode->entry, &attributes, asked_ns);
}

void io_note_end(struct file_open *open, const struct ledger_stamp *stamp, uint64_t asked_ns,
                 uint64_t offset, const struct nfs_transfer *transfer)
{
    uint64_t end = offset + transfer->length;
    if (!transfer->eof || transfer->two_ends || !transfer->attr.present ||
        transfer->attr.attr.size != end || !ledger_stamp_end_lasts(&open->inode->entry, stamp, end))
        return;
    pthread_mutex_lock(&open->ahead.lock);
    open->ahead.end_stamp = *stamp;
    open->ahead.end_asked_ns = asked_ns;
    atomic_store_explicit(&open->ahead.file_end, end, memory_order_relaxed);
    pthread_mutex_unlock(&open->ahead.lock);
}
