/* What all files here use. Whatever is unpacked is verified only afterwards, so it may be anything: no function
 * here reads or writes outside of the memory that it was handed, and what does not fit is answered with -1.
 *
 * Built where there is a C compiler (hatch_build.py); elsewhere the same bytes come from numpy, more slowly
 * (docs/decisions/0035).
 */
#ifndef GPUNION_COMMON_H
#define GPUNION_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are stored with their lowest byte first"
#endif

/* GPUNION_PORTABLE: as on another processor, to test that on this one. */
#if defined(__x86_64__) && !defined(GPUNION_PORTABLE)
#define ON_X86 1
#include <immintrin.h>
/* The compiler makes a second one for newer processors; which one runs is found out where it runs. */
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ON_X86 0
#define WIDE
#endif

#define INSIDE static inline __attribute__((always_inline))
#define SHOWN __attribute__((visibility("default")))

INSIDE uint64_t load(const uint8_t *from)
{
    uint64_t found;
    memcpy(&found, from, sizeof found);
    return found;
}

/* Whether codes are unpacked faster than what a compressor makes of them. */
SHOWN int gpunion_is_fast(void);

/* Whether bits are moved to where a mask has ones, and back, by one instruction each. Older processors of one
 * maker have these, and take a hundred times as long for them. */
INSIDE int moves_bits_fast(void)
{
#if ON_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
           !__builtin_cpu_is("znver2") && !__builtin_cpu_is("bdver4");
#else
    return 0;
#endif
}

#endif
