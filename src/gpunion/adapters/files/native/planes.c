/* Planes: one byte of each of many numbers. Codes are unpacked, exceptions put in, and numbers joined from them.
 */
#include "codes.h"

enum { AS_IT_IS = 0, EXCEPTIONS = 2, CODES = 3 }; /* as in kinds.py */

static int is_sound(const gpunion_plane *plane, uint64_t count)
{
    switch (plane->kind) {
    case AS_IT_IS:
        return plane->size >= count;
    case EXCEPTIONS:
        return plane->count <= plane->size;
    case CODES:
        return plane->bits >= 1 && plane->bits <= BITS_MAX && plane->size >= (count + 7) / 8 * plane->bits;
    }
    return 0;
}

static int exceptions(reader *from, uint8_t *out, uint64_t count)
{
    const gpunion_plane *plane = from->plane;
    const uint64_t end = from->at + count;
    memset(out, plane->common[0], count);
    while (from->next < plane->count) {
        const uint64_t position = from->position + plane->bytes[from->next];
        if (position == 0)
            return -1;
        if (position > end)
            break;
        if (position <= from->at)
            return -1;
        out[position - 1 - from->at] = plane->others[from->next++];
        from->position = position;
    }
    return 0;
}

/* The next `count` bytes: where they lie, or in `scratch`. NULL: they do not fit. Every `count` but the last
 * is a multiple of 8. */
static const uint8_t *next_of(reader *from, uint8_t *scratch, uint64_t count)
{
    const gpunion_plane *plane = from->plane;
    const uint8_t *found = scratch;
    int wrong = 0;
    if (plane->kind == AS_IT_IS)
        found = plane->bytes + from->at;
    else if (plane->kind == EXCEPTIONS)
        wrong = exceptions(from, scratch, count);
    else
        wrong = codes(from, scratch, count);
    from->at += count;
    return wrong ? NULL : found;
}

SHOWN int gpunion_unpack_plane(const gpunion_plane *plane, uint8_t *out, size_t count)
{
    reader from = {plane, 0, 0, 0};
    if (!is_sound(plane, count))
        return -1;
    const uint8_t *found = next_of(&from, out, count);
    if (found == NULL)
        return -1;
    if (found != out)
        memcpy(out, found, count);
    return 0;
}

/* ---- Numbers from their upper bytes, a plane each, the highest first, and their lower halves as they are.
 * Where there are four planes the upper bytes are differences from those of the second pair: so much has to be
 * added, and `planes._balance` less. */

static void halves(const uint8_t *restrict high, const uint8_t *restrict next, const uint16_t *restrict low,
                   uint32_t *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)high[i] << 24 | (uint32_t)next[i] << 16 | low[i];
}

static void changed_halves(const uint8_t *restrict high, const uint8_t *restrict next,
                           const uint8_t *restrict old_high, const uint8_t *restrict old_next,
                           const uint16_t *restrict low, uint32_t *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t upper = (uint16_t)((high[i] << 8 | next[i]) + (old_high[i] << 8 | old_next[i]) - 0x80);
        out[i] = (uint32_t)upper << 16 | low[i];
    }
}

WIDE static void pairs(const uint8_t *restrict high, const uint8_t *restrict low, uint16_t *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint16_t)(high[i] << 8 | low[i]);
}

WIDE static void changed_pairs(const uint8_t *restrict high, const uint8_t *restrict low,
                               const uint8_t *restrict old_high, const uint8_t *restrict old_low,
                               uint16_t *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint16_t)((high[i] << 8 | low[i]) + (old_high[i] << 8 | old_low[i]) - 0x80);
}

#if ON_X86
/* The same, 32 at a time; how many those are. Bytes, and then halves, are laid next to each other: that takes a
 * third of the steps of making each of them wide. */
__attribute__((target("avx2"))) INSIDE __m256i bytes_at(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

/* Eight of one place and eight of another: as bytes that were laid next to each other come out. */
__attribute__((target("avx2"))) INSIDE __m256i eights_at(const uint16_t *one, const uint16_t *other)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)one)),
                                   _mm_loadu_si128((const __m128i *)other), 1);
}

__attribute__((target("avx2"))) INSIDE void put_halves(__m256i upper, __m256i low, uint32_t *one, uint32_t *other)
{
    const __m256i first = _mm256_unpacklo_epi16(low, upper), second = _mm256_unpackhi_epi16(low, upper);
    _mm256_storeu_si256((__m256i *)one, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256((__m256i *)other, _mm256_permute2x128_si256(first, second, 0x31));
}

__attribute__((target("avx2"))) static size_t halves_fast(const uint8_t *const *found, const uint16_t *low,
                                                          uint32_t *out, size_t count, int changed)
{
    const __m256i balance = _mm256_set1_epi16(0x80);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i high = bytes_at(found[0] + i), next = bytes_at(found[1] + i);
        __m256i upper = _mm256_unpacklo_epi8(next, high), more = _mm256_unpackhi_epi8(next, high);
        if (changed) {
            const __m256i old_high = bytes_at(found[2] + i), old_next = bytes_at(found[3] + i);
            upper = _mm256_add_epi16(_mm256_sub_epi16(upper, balance), _mm256_unpacklo_epi8(old_next, old_high));
            more = _mm256_add_epi16(_mm256_sub_epi16(more, balance), _mm256_unpackhi_epi8(old_next, old_high));
        }
        put_halves(upper, eights_at(low + i, low + i + 16), out + i, out + i + 16);
        put_halves(more, eights_at(low + i + 8, low + i + 24), out + i + 8, out + i + 24);
    }
    return i;
}
#endif

static void join_halves(const uint8_t *const *found, const uint16_t *low, uint32_t *out, size_t count, int changed)
{
    size_t i = 0;
#if ON_X86
    if (gpunion_is_fast())
        i = changed ? halves_fast(found, low, out, count, 1) : halves_fast(found, low, out, count, 0);
#endif
    if (changed)
        changed_halves(found[0] + i, found[1] + i, found[2] + i, found[3] + i, low + i, out + i, count - i);
    else
        halves(found[0] + i, found[1] + i, low + i, out + i, count - i);
}

#define STRIP 8192 /* numbers at a time: what is unpacked of them stays in the core's own cache */

/* `low` is NULL for numbers of two bytes, and `out` has numbers of four otherwise. */
SHOWN int gpunion_join(const gpunion_plane *planes, size_t planes_count, const uint16_t *low, void *out, size_t count)
{
    _Alignas(64) uint8_t scratch[4][STRIP];
    reader from[4];
    const uint8_t *found[4];
    if (planes_count != 2 && planes_count != 4)
        return -1;
    for (size_t k = 0; k < planes_count; k++) {
        from[k] = (reader){planes + k, 0, 0, 0};
        if (!is_sound(planes + k, count))
            return -1;
    }
    for (size_t start = 0; start < count; start += STRIP) {
        const size_t part = count - start < STRIP ? count - start : STRIP;
        for (size_t k = 0; k < planes_count; k++) {
            found[k] = next_of(from + k, scratch[k], part);
            if (found[k] == NULL)
                return -1;
        }
        if (low == NULL && planes_count == 2)
            pairs(found[0], found[1], (uint16_t *)out + start, part);
        else if (low == NULL)
            changed_pairs(found[0], found[1], found[2], found[3], (uint16_t *)out + start, part);
        else
            join_halves(found, low + start, (uint32_t *)out + start, part, planes_count == 4);
    }
    return 0;
}
