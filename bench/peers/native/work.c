/* The work of the harness once more, in C, for recorders that instrument C: compiled twice, without and
 * with a recorder's flags. It must compute what the harness computes; every run compares. */
#include <stdint.h>
#include <string.h>

#ifndef TWIN
#error "define TWIN as untraced or traced"
#endif
#define GLUE(a, b, c) a##b##c
#define NAME(twin, name) GLUE(native_, twin, name)
#define F(name) NAME(TWIN, name)

#define HIDDEN __attribute__((noinline, visibility("hidden")))
/* Inlined, and no function of its own to a recorder. */
#define PART static inline __attribute__((always_inline, no_instrument_function))
#define OPAQUE(value) __asm__ volatile("" : "+m"(value))

#define MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)
#define LEAVES 5000
#define FIB 17

struct slot {
    uint64_t key, count;
};

PART uint64_t key_of(const uint8_t *word, size_t length) {
    static const struct {
        const char *text;
        size_t length;
    } endings[3] = {{"ing", 3}, {"ed", 2}, {"s", 1}};
    for (int i = 0; i < 3; i++) {
        size_t less = endings[i].length;
        if (length > less + 2 && memcmp(word + length - less, endings[i].text, less) == 0) {
            length -= less;
            break;
        }
    }
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (word[i] | 0x20)) * UINT64_C(0x100000001B3);
    return hash | 1;
}

HIDDEN uint64_t F(_leaf)(uint64_t x) {
    uint64_t result = x * MULTIPLIER;
    OPAQUE(result);
    return result;
}

HIDDEN uint64_t F(_fib)(uint32_t n) {
    if (n < 2)
        return n;
    uint64_t first = F(_fib)(n - 1);
    OPAQUE(first);
    uint64_t second = F(_fib)(n - 2);
    OPAQUE(second);
    return first + second;
}

HIDDEN uint64_t F(_stem)(const uint8_t *word, size_t length) {
    return key_of(word, length);
}

HIDDEN uint64_t F(_insert)(uint64_t key, struct slot *table, size_t slots) {
    size_t at = (key >> 40) & (slots - 1);
    for (;;) {
        struct slot *slot = &table[at];
        if (slot->key == key || slot->key == 0) {
            slot->key = key;
            slot->count++;
            return key ^ at;
        }
        at = (at + 1) & (slots - 1);
    }
}

/* The end of the part that begins here: the next mark, or the end of the text. */
PART const uint8_t *part_end(const uint8_t *from, const uint8_t *end, uint8_t mark) {
    while (from < end && *from != mark)
        from++;
    return from;
}

HIDDEN uint64_t F(_line)(const uint8_t *text, const uint8_t *end, struct slot *table, size_t slots) {
    uint64_t sum = 0;
    for (;; text++) {
        const uint8_t *next = part_end(text, end, ' ');
        sum += F(_insert)(F(_stem)(text, next - text), table, slots);
        if ((text = next) == end)
            return sum;
    }
}

HIDDEN uint64_t F(_document)(const uint8_t *text, const uint8_t *end, struct slot *table, size_t slots) {
    uint64_t sum = 0;
    for (;; text++) {
        const uint8_t *next = part_end(text, end, '\n');
        sum += F(_line)(text, next, table, slots);
        if ((text = next) == end)
            return sum;
    }
}

PART uint64_t mix(const uint8_t *text, const uint8_t *end, struct slot *table, size_t slots) {
    uint64_t sum = 0;
    for (;; text++) {
        const uint8_t *next = part_end(text, end, 0);
        sum += F(_document)(text, next, table, slots);
        if ((text = next) == end)
            return sum;
    }
}

__attribute__((no_instrument_function)) uint64_t F(_batch)(uint32_t body, const uint8_t *text, size_t length,
                                                          struct slot *table, size_t slots) {
    uint64_t sum = 0;
    uint32_t n = FIB;
    switch (body) {
    case 0:
        for (uint64_t x = 0; x < LEAVES; x++)
            sum ^= F(_leaf)(x);
        return sum;
    case 1:
        OPAQUE(n);
        return F(_fib)(n);
    default:
        return mix(text, text + length, table, slots);
    }
}
