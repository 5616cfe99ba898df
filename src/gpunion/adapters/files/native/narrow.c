/* Narrow numbers: two bits say which of four widths each of them has.
 */
#include "common.h"

#define BEHIND 16 /* bytes behind the last bit, so that a look at several numbers stays inside */

typedef struct {
    uint64_t masks[256]; /* where the bits of four numbers belong, by their four widths */
    uint8_t bits[256];   /* how many those are */
    uint8_t widths[4];
} widths_table;

static int table_of(widths_table *table, const uint8_t *widths)
{
    for (int k = 0; k < 4; k++)
        if (widths[k] > 16)
            return -1;
    memcpy(table->widths, widths, sizeof table->widths);
    for (int four = 0; four < 256; four++) {
        table->masks[four] = 0;
        table->bits[four] = 0;
        for (int k = 0; k < 4; k++) {
            const uint8_t width = widths[four >> 2 * k & 3];
            table->masks[four] |= (((uint64_t)1 << width) - 1) << 16 * k;
            table->bits[four] = (uint8_t)(table->bits[four] + width);
        }
    }
    return 0;
}

/* So many bits, in the lowest place; above them anything. */
INSIDE uint64_t bits_at(const uint8_t *from, uint64_t at, unsigned bits)
{
    const uint64_t found = load(from + (at >> 3)) >> (at & 7);
    if (__builtin_expect(bits <= 57, 1))
        return found;
    return found | (uint64_t)from[(at >> 3) + 8] << 1 << (63 - (at & 7));
}

/* Bits that lie one after the other to where four numbers have theirs, and back. */
typedef uint64_t move_bits(const widths_table *, uint8_t four, uint64_t);

static inline uint64_t spread_slowly(const widths_table *table, uint8_t four, uint64_t bits)
{
    uint64_t found = 0;
    for (int k = 0; k < 4; k++) {
        const uint8_t width = table->widths[four >> 2 * k & 3];
        found |= (bits & (((uint64_t)1 << width) - 1)) << 16 * k;
        bits >>= width;
    }
    return found;
}

static inline uint64_t gather_slowly(const widths_table *table, uint8_t four, uint64_t numbers)
{
    uint64_t found = 0;
    unsigned at = 0;
    for (int k = 0; k < 4; k++) {
        const uint8_t width = table->widths[four >> 2 * k & 3];
        found |= (numbers >> 16 * k & (((uint64_t)1 << width) - 1)) << at % 64;
        at += width;
    }
    return found;
}

INSIDE int unpack_narrow(move_bits spread, const widths_table *table, const uint8_t *which, const uint8_t *packed,
                         uint64_t packed_bits, uint16_t least, uint16_t *out, size_t count)
{
    enum { FOURS = 4, BITS_MOST = 64 * FOURS };
    const uint64_t more = 0x0001000100010001u * (uint64_t)least;
    uint64_t at = 0;
    size_t i = 0;
    for (; i + 4 * FOURS <= count && at + BITS_MOST <= packed_bits; i += 4 * FOURS)
        for (size_t k = 0; k < 4 * FOURS; k += 4) {
            const uint8_t four = which[(i + k) / 4];
            const uint64_t found = spread(table, four, bits_at(packed, at, table->bits[four])) + more;
            memcpy(out + i + k, &found, sizeof found);
            at += table->bits[four];
        }
    for (; i < count; i += 4) {
        const uint8_t four = which[i / 4];
        if (at + table->bits[four] > packed_bits)
            return -1;
        const uint64_t found = spread(table, four, bits_at(packed, at, table->bits[four])) + more;
        memcpy(out + i, &found, count - i < 4 ? 2 * (count - i) : sizeof found);
        at += table->bits[four];
    }
    return 0;
}

INSIDE uint64_t pack_narrow(move_bits gather, const widths_table *table, const uint16_t *numbers, size_t count,
                            const uint8_t *which, uint16_t least, uint8_t *packed)
{
    const uint64_t less = 0x0001000100010001u * (uint64_t)least;
    uint64_t kept = 0, at = 0;
    for (size_t i = 0; i < count; i += 4) {
        uint64_t four_numbers = less;
        memcpy(&four_numbers, numbers + i, count - i >= 4 ? 8 : 2 * (count - i));
        const uint8_t four = which[i / 4];
        const uint64_t bits = gather(table, four, four_numbers - less);
        const unsigned held = at & 7;
        kept |= bits << held;
        memcpy(packed + (at >> 3), &kept, sizeof kept);
        const uint64_t above = bits >> 1 >> (63 - held);
        at += table->bits[four];
        const unsigned whole = (unsigned)((held + table->bits[four]) >> 3);
        kept = whole == 8 ? above : kept >> 8 * whole;
    }
    if (at & 7) /* the last four may have left bits that are not written yet */
        packed[at >> 3] = (uint8_t)kept;
    return at;
}

#if ON_X86
__attribute__((target("bmi2"))) static inline uint64_t spread_at_once(const widths_table *table, uint8_t four,
                                                                      uint64_t bits)
{
    return _pdep_u64(bits, table->masks[four]);
}

__attribute__((target("bmi2"))) static inline uint64_t gather_at_once(const widths_table *table, uint8_t four,
                                                                      uint64_t numbers)
{
    return _pext_u64(numbers, table->masks[four]);
}

__attribute__((target("bmi2"))) static int unpack_narrow_fast(const widths_table *table, const uint8_t *which,
                                                              const uint8_t *packed, uint64_t packed_bits,
                                                              uint16_t least, uint16_t *out, size_t count)
{
    return unpack_narrow(spread_at_once, table, which, packed, packed_bits, least, out, count);
}

__attribute__((target("bmi2"))) static uint64_t pack_narrow_fast(const widths_table *table, const uint16_t *numbers,
                                                                 size_t count, const uint8_t *which, uint16_t least,
                                                                 uint8_t *packed)
{
    return pack_narrow(gather_at_once, table, numbers, count, which, least, packed);
}
#else
#define unpack_narrow_fast(...) -1
#define pack_narrow_fast(...) 0
#endif

SHOWN int gpunion_unpack_narrow(const uint8_t *which, const uint8_t *packed, size_t packed_bytes, const uint8_t *widths,
                          uint16_t least, uint16_t *out, size_t count)
{
    widths_table table;
    if (packed_bytes < BEHIND || table_of(&table, widths))
        return -1;
    const uint64_t bits = (uint64_t)(packed_bytes - BEHIND) * 8;
    if (moves_bits_fast())
        return unpack_narrow_fast(&table, which, packed, bits, least, out, count);
    return unpack_narrow(spread_slowly, &table, which, packed, bits, least, out, count);
}

WIDE static void classes_of(const uint16_t *restrict numbers, size_t count, const uint16_t *limits, uint16_t least,
                            uint8_t *restrict classes)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t above = (uint16_t)(numbers[i] - least);
        classes[i] = (uint8_t)((above > limits[0]) + (above > limits[1]) + (above > limits[2]));
    }
}

/* How many bytes, `BEHIND` among them; `packed` has room for those, and for fours of numbers at full width. The last
 * width is enough for every number. */
SHOWN ptrdiff_t gpunion_pack_narrow(const uint16_t *numbers, size_t count, const uint8_t *widths, uint16_t least,
                                    uint8_t *which, uint8_t *packed)
{
    enum { AT_ONCE = 4096 };
    widths_table table;
    uint8_t classes[AT_ONCE];
    uint16_t limits[3];
    if (table_of(&table, widths))
        return -1;
    for (int k = 0; k < 3; k++)
        limits[k] = (uint16_t)(((uint32_t)1 << widths[k]) - 1);
    for (size_t start = 0; start < count; start += AT_ONCE) {
        const size_t part = count - start < AT_ONCE ? count - start : AT_ONCE;
        memset(classes + part / 4 * 4, 0, part < AT_ONCE ? 4 : 0);
        classes_of(numbers + start, part, limits, least, classes);
        for (size_t i = 0; i < part; i += 4)
            which[(start + i) / 4] =
                (uint8_t)(classes[i] | classes[i + 1] << 2 | classes[i + 2] << 4 | classes[i + 3] << 6);
    }
    const uint64_t bits = moves_bits_fast() ? pack_narrow_fast(&table, numbers, count, which, least, packed)
                                            : pack_narrow(gather_slowly, &table, numbers, count, which, least, packed);
    const size_t bytes = (size_t)((bits + 7) / 8);
    memset(packed + bytes, 0, BEHIND);
    return (ptrdiff_t)(bytes + BEHIND);
}
