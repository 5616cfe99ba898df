/* A plane as it is handed over, and what of it was read: between planes.c, which has all kinds of them, and codes.c.
 */
#ifndef GPUNION_CODES_H
#define GPUNION_CODES_H

#include "common.h"

#define TABLE_BITS 4 /* wider codes stand for a range of bytes, not for any */
#define BITS_MAX 7
#define SPARE 64

/* As in __init__.py. */
typedef struct {
    const uint8_t *bytes;  /* the plane itself; or its codes; or how far each exception is behind the last */
    const uint8_t *others; /* what stands where the last code does, with SPARE bytes behind that may be read; or the
                            * exceptions, and not a byte more */
    uint64_t size;         /* of `bytes` */
    uint64_t count;        /* of `others` */
    uint8_t common[16];    /* what each code stands for, or the least of the range; or the common byte */
    uint32_t kind;
    uint32_t bits; /* of a code */
} gpunion_plane;

typedef struct {
    const gpunion_plane *plane;
    uint64_t at;       /* how many bytes were given */
    uint64_t next;     /* of the others */
    uint64_t position; /* of the next exception, and one */
} reader;

/* The next `count` bytes of a plane of codes; -1: they do not fit. It has codes for them, and every `count` but the last
 * is a multiple of 8. */
int codes(reader *from, uint8_t *out, uint64_t count);

#endif
