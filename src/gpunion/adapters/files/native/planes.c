/* Planes: one byte of each of many numbers. Codes are unpacked, exceptions put in, and numbers joined from them.
 */
#include "common.h"


enum { AS_IT_IS = 0, EXCEPTIONS = 2, CODES = 3 }; /* as in pieces.py */
#define TABLE_BITS 4                              /* wider codes stand for a range of bytes, not for any */
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

/* For each eight bits: which of the others goes where, and nothing elsewhere; and where each one comes from. */
static uint8_t others_to[256][8], others_from[256][8];

__attribute__((constructor)) static void find_others_to(void)
{
    for (int mask = 0; mask < 256; mask++)
        for (int bit = 0, found = 0; bit < 8; bit++) {
            others_to[mask][bit] = mask >> bit & 1 ? (uint8_t)found : 0x80;
            if (mask >> bit & 1)
                others_from[mask][found++] = (uint8_t)bit;
        }
}

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

/* Without a guess at which of them are others: that would be wrong too often. */
static int codes_one_by_one(reader *from, uint8_t *restrict out, uint64_t count)
{
    const gpunion_plane plane = *from->plane; /* here, since whatever is written could be a part of it */
    const unsigned bits = plane.bits;
    const uint8_t last = (uint8_t)((1u << bits) - 1);
    uint8_t bytes[1 << BITS_MAX] = {0}; /* nothing for the last code: the others are put in by an or */
    for (unsigned code = 0; code < last; code++)
        bytes[code] = bits <= TABLE_BITS ? plane.common[code] : (uint8_t)(code + plane.common[0]);
    uint64_t next = from->next;
    for (uint64_t i = 0; i < count && next <= plane.count; i += 8) {
        const uint64_t start = (from->at + i) / 8 * bits;
        uint64_t eight = 0, found = 0;
        if (plane.size - start >= sizeof eight)
            eight = load(plane.bytes + start);
        else
            memcpy(&eight, plane.bytes + start, bits);
        if (count - i < 8) /* none of those that are not there is one of the others */
            eight &= ((uint64_t)1 << (count - i) * bits) - 1;
        for (unsigned k = 0; k < 8; k++) {
            const uint64_t code = eight >> bits * k & last, is_other = code == last;
            found |= (uint64_t)(bytes[code] | (plane.others[next] & -is_other)) << 8 * k;
            next += is_other;
        }
        memcpy(out + i, &found, count - i < 8 ? count - i : 8);
    }
    from->next = next;
    return next > plane.count ? -1 : 0;
}

#if ON_X86
typedef struct {
    __m256i kept, moved;
    __m128i by;
} half_step;

__attribute__((target("avx2"))) INSIDE half_step step_of(unsigned width, unsigned bits)
{
    /* Of each `2 * width` bits the lower `width / 8` codes stay, and those behind them move to the upper half. */
    const uint64_t codes = ((uint64_t)1 << width / 8 * bits) - 1;
    uint64_t kept = 0, moved = 0;
    for (unsigned at = 0; at < 64; at += 2 * width) {
        kept |= codes << at;
        moved |= codes << (at + width);
    }
    return (half_step){_mm256_set1_epi64x((long long)kept), _mm256_set1_epi64x((long long)moved),
                       _mm_cvtsi32_si128((int)(width - width / 8 * bits))};
}

__attribute__((target("avx2"))) INSIDE __m256i stepped(__m256i codes, const half_step *step)
{
    return _mm256_or_si256(_mm256_and_si256(codes, step->kept),
                           _mm256_and_si256(_mm256_sll_epi64(codes, step->by), step->moved));
}

/* As many whole rows of 32 as may be read without looking where they end; how many bytes those are. */
__attribute__((target("avx2,popcnt"))) static uint64_t codes_fast(reader *from, uint8_t *out, uint64_t count)
{
    const gpunion_plane *plane = from->plane;
    const unsigned bits = plane->bits;
    const uint8_t *codes = plane->bytes + from->at / 8 * bits, *end = plane->bytes + plane->size;
    const half_step fours = step_of(32, bits), twos = step_of(16, bits), ones = step_of(8, bits);
    const __m256i last = _mm256_set1_epi8((char)((1u << bits) - 1));
    uint8_t table[16] = {0}; /* as above */
    memcpy(table, plane->common, bits < TABLE_BITS ? (1u << bits) - 1 : 15);
    const __m256i common = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    const __m256i least = _mm256_set1_epi8((char)plane->common[0]);
    uint64_t i = 0, next = from->next;
    for (; i + 32 <= count && end - codes >= (ptrdiff_t)(3 * bits + 8) && next <= plane->count; i += 32) {
        __m256i found = _mm256_set_epi64x((long long)load(codes + 3 * bits), (long long)load(codes + 2 * bits),
                                          (long long)load(codes + bits), (long long)load(codes));
        found = stepped(stepped(stepped(found, &fours), &twos), &ones);
        const __m256i are_others = _mm256_cmpeq_epi8(found, last);
        const uint32_t which = (uint32_t)_mm256_movemask_epi8(are_others);
        const __m256i bytes = bits <= TABLE_BITS
                                  ? _mm256_shuffle_epi8(common, found)
                                  : _mm256_andnot_si256(are_others, _mm256_add_epi8(found, least));
        __m128i others[4];
        for (int k = 0; k < 4; k++) {
            const uint8_t eight = (uint8_t)(which >> 8 * k);
            others[k] = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(plane->others + next)),
                                         _mm_loadl_epi64((const __m128i *)others_to[eight]));
            next += (uint64_t)_mm_popcnt_u32(eight);
        }
        const __m256i more = _mm256_set_m128i(_mm_unpacklo_epi64(others[2], others[3]),
                                              _mm_unpacklo_epi64(others[0], others[1]));
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_or_si256(bytes, more));
        codes += 4 * bits;
    }
    from->next = next;
    return i;
}
#endif

/* Whether codes are unpacked faster than what a compressor makes of them. */
SHOWN int gpunion_is_fast(void)
{
#if ON_X86
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
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
    else {
        uint64_t done = 0;
#if ON_X86
        if (gpunion_is_fast())
            done = codes_fast(from, scratch, count);
#endif
        from->at += done;
        wrong = from->next > plane->count || codes_one_by_one(from, scratch + done, count - done);
        from->at -= done;
    }
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

#if ON_X86
__attribute__((target("avx2"))) INSIDE __m256i stepped_back(__m256i codes, const half_step *step)
{
    return _mm256_or_si256(_mm256_and_si256(codes, step->kept),
                           _mm256_srl_epi64(_mm256_and_si256(codes, step->moved), step->by));
}

/* As many whole rows of 32 as there are, but for the last, behind which nothing may be written; how many bytes those
 * are. */
__attribute__((target("avx2,popcnt"))) static size_t pack_codes_fast(const uint8_t *bytes, size_t count,
                                                                     const uint8_t *common, unsigned bits,
                                                                     uint8_t *codes, uint8_t *others, size_t *found)
{
    const half_step fours = step_of(32, bits), twos = step_of(16, bits), ones = step_of(8, bits);
    const unsigned last = (1u << bits) - 1;
    const __m256i least = _mm256_set1_epi8((char)common[0]), last_of_all = _mm256_set1_epi8((char)last);
    size_t i = 0, next = 0;
    for (; i + 64 <= count; i += 32) {
        const __m256i row = bytes_at(bytes + i);
        __m256i code = last_of_all;
        if (bits <= TABLE_BITS)
            for (unsigned k = 0; k < last; k++)
                code = _mm256_blendv_epi8(code, _mm256_set1_epi8((char)k),
                                          _mm256_cmpeq_epi8(row, _mm256_set1_epi8((char)common[k])));
        else
            code = _mm256_min_epu8(_mm256_sub_epi8(row, least), last_of_all);
        const uint32_t which = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(code, last_of_all));
        code = stepped_back(stepped_back(stepped_back(code, &ones), &twos), &fours);
        uint64_t eights[4];
        _mm256_storeu_si256((__m256i *)eights, code);
        for (size_t k = 0; k < 4; k++) {
            const uint8_t eight = (uint8_t)(which >> 8 * k);
            memcpy(codes + (i / 8 + k) * bits, eights + k, sizeof eights[k]);
            _mm_storel_epi64((__m128i *)(others + next),
                             _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(bytes + i + 8 * k)),
                                              _mm_loadl_epi64((const __m128i *)others_from[eight])));
            next += (size_t)_mm_popcnt_u32(eight);
        }
    }
    *found = next;
    return i;
}
#endif

/* What each code stands for is `common`, or the least of a range; how many others there are. There is room for all
 * bytes in `others`, and for eight more in `codes` than they take. */
SHOWN size_t gpunion_pack_codes(const uint8_t *restrict bytes, size_t count, const uint8_t *restrict common, unsigned bits,
                                uint8_t *restrict codes, uint8_t *restrict others)
{
    const uint8_t last = (uint8_t)((1u << bits) - 1);
    uint8_t code_of[256];
    memset(code_of, last, sizeof code_of);
    for (unsigned code = 0; code < last; code++)
        code_of[bits <= TABLE_BITS ? common[code] : (uint8_t)(common[0] + code)] = (uint8_t)code;
    size_t i = 0, found = 0;
#if ON_X86
    if (gpunion_is_fast())
        i = pack_codes_fast(bytes, count, common, bits, codes, others, &found);
#endif
    for (; i < count; i += 8) {
        const size_t part = count - i < 8 ? count - i : 8;
        uint64_t eight = 0;
        for (size_t k = 0; k < part; k++) {
            const uint8_t byte = bytes[i + k], code = code_of[byte];
            eight |= (uint64_t)code << bits * k;
            if (code == last)
                others[found++] = byte;
        }
        memcpy(codes + i / 8 * bits, &eight, sizeof eight);
    }
    return found;
}
