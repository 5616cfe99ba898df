/* Many short writes as one call: between two of its own, Python would ask for its turn each time. */
#define _FILE_OFFSET_BITS 64
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <unistd.h>

#include "common.h"

/* Of the files that this was built from; whoever loads it leaves alone what was built from others. */
SHOWN uint32_t gpunion_source(void) { return GPUNION_SOURCE; }

/* 0, or what was in the way. */
SHOWN int gpunion_write_at(int descriptor, const uint8_t *bytes, size_t count, int64_t offset, size_t at_once)
{
    while (count) {
        const ssize_t written = pwrite(descriptor, bytes, count < at_once ? count : at_once, offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return errno;
        }
        if (written == 0)
            return EIO;
        bytes += written;
        count -= (size_t)written;
        offset += written;
    }
    return 0;
}
