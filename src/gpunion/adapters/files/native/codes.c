/* Codes: a few bits for each byte of a plane, which say which of the common bytes it is, or that it is another.
 */
#include "codes.h"

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

#define WIDEST __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")))

/* GPUNION_NOT_WIDEST: as on a processor that does not have it, to test that on this one. */
static int is_widest(void)
{
#ifdef GPUNION_NOT_WIDEST
    return 0;
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#endif
}

/* The same in rows of 64: one instruction has the codes of eight bytes apart, and one puts all the others in. Nothing
 * behind the codes of a row is looked at. */
WIDEST static uint64_t codes_widest(reader *from, uint8_t *out, uint64_t count)
{
    const gpunion_plane *plane = from->plane;
    const unsigned bits = plane->bits;
    const uint8_t *codes = plane->bytes + from->at / 8 * bits;
    uint8_t eights[64], places[64], table[64] = {0};
    for (unsigned k = 0; k < 64; k++) {
        eights[k] = (uint8_t)(k / 8 * bits + k % 8); /* which bytes the next eight codes lie in, */
        places[k] = (uint8_t)(k % 8 * bits);         /* and from which bit of those on */
    }
    memcpy(table, plane->common, 16);
    const __m512i eight = _mm512_loadu_si512(eights), place = _mm512_loadu_si512(places);
    const __m512i common = _mm512_loadu_si512(table), least = _mm512_set1_epi8((char)plane->common[0]);
    const __m512i last = _mm512_set1_epi8((char)((1u << bits) - 1));
    const __mmask64 row = ((uint64_t)1 << 8 * bits) - 1;
    uint64_t i = 0, next = from->next;
    for (; i + 64 <= count && next <= plane->count; i += 64) {
        const __m512i found = _mm512_and_si512(
            _mm512_multishift_epi64_epi8(place, _mm512_permutexvar_epi8(eight, _mm512_maskz_loadu_epi8(row, codes))),
            last);
        const __mmask64 which = _mm512_cmpeq_epi8_mask(found, last);
        const __m512i bytes =
            bits <= TABLE_BITS ? _mm512_permutexvar_epi8(found, common) : _mm512_add_epi8(found, least);
        _mm512_storeu_si512(out + i,
                            _mm512_mask_expand_epi8(bytes, which, _mm512_loadu_si512(plane->others + next)));
        next += (uint64_t)__builtin_popcountll(which);
        codes += 8 * bits;
    }
    from->next = next;
    return i;
}

/* As many as may be read in whole rows. */
static uint64_t codes_in_rows(reader *from, uint8_t *out, uint64_t count)
{
    if (is_widest())
        return codes_widest(from, out, count);
    return gpunion_is_fast() ? codes_fast(from, out, count) : 0;
}
#else
#define codes_in_rows(...) 0
#endif

int codes(reader *from, uint8_t *out, uint64_t count)
{
    const uint64_t done = codes_in_rows(from, out, count);
    from->at += done;
    const int wrong = from->next > from->plane->count || codes_one_by_one(from, out + done, count - done);
    from->at -= done;
    return wrong ? -1 : 0;
}

/* Whether codes are unpacked faster than what a compressor makes of them. */
SHOWN int gpunion_is_fast(void)
{
#if ON_X86
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
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
        const __m256i row = _mm256_loadu_si256((const __m256i *)(bytes + i));
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
