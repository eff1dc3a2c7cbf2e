// SPDX-License-Identifier: Apache-2.0

#include "CNGHTTP2.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Sizes are rounded up to a multiple of STEP. There is a list of free blocks of each size up to CLASSES * STEP.
#if __has_feature(address_sanitizer)
// AddressSanitizer knows what is free, and how long a block is, only if nothing is kept or rounded up.
enum { STEP = 1, CLASSES = 8, MAXIMUM_KEPT = 0 };
#else
enum { STEP = 64, CLASSES = 8, MAXIMUM_KEPT = 64 * 1024 };
#endif

// What stands before each block.
struct header {
    _Alignas(max_align_t) size_t capacity;
    // The next block of a list of free ones.
    struct header *next;
};

struct tocsin_session_memory {
    struct header *free[CLASSES];
    // The bytes of all free blocks, with their headers.
    size_t kept;
};

static struct header *header(void *pointer) { return (struct header *)pointer - 1; }

static size_t class(size_t capacity) { return capacity / STEP - 1; }

static void *allocate(size_t size, void *user) {
    struct tocsin_session_memory *memory = user;
    if (size > SIZE_MAX - sizeof(struct header) - STEP) return NULL;
    size_t capacity = size == 0 ? STEP : (size + STEP - 1) / STEP * STEP;
    if (capacity <= CLASSES * STEP && memory->free[class(capacity)]) {
        struct header *block = memory->free[class(capacity)];
        memory->free[class(capacity)] = block->next;
        memory->kept -= sizeof *block + capacity;
        return block + 1;
    }
    struct header *block = malloc(sizeof *block + capacity);
    if (!block) return NULL;
    block->capacity = capacity;
    return block + 1;
}

static void release(void *pointer, void *user) {
    struct tocsin_session_memory *memory = user;
    if (!pointer) return;
    struct header *block = header(pointer);
    size_t size = sizeof *block + block->capacity;
    if (block->capacity > CLASSES * STEP || memory->kept + size > MAXIMUM_KEPT) return free(block);
    block->next = memory->free[class(block->capacity)];
    memory->free[class(block->capacity)] = block;
    memory->kept += size;
}

static void *allocate_zeroed(size_t number, size_t size, void *user) {
    size_t total;
    if (__builtin_mul_overflow(number, size, &total)) return NULL;
    void *pointer = allocate(total, user);
    if (pointer) memset(pointer, 0, total);
    return pointer;
}

static void *reallocate(void *pointer, size_t size, void *user) {
    if (pointer && size <= header(pointer)->capacity) return pointer;
    void *moved = allocate(size, user);
    if (moved && pointer) {
        memcpy(moved, pointer, header(pointer)->capacity);
        release(pointer, user);
    }
    return moved;
}

tocsin_session_memory *tocsin_session_memory_new(void) { return calloc(1, sizeof(tocsin_session_memory)); }

nghttp2_mem tocsin_session_memory_functions(tocsin_session_memory *memory) {
    return (nghttp2_mem){memory, allocate, release, allocate_zeroed, reallocate};
}

size_t tocsin_session_memory_kept(const tocsin_session_memory *memory) { return memory->kept; }

void tocsin_session_memory_del(tocsin_session_memory *memory) {
    if (!memory) return;
    for (size_t class = 0; class < CLASSES; class++) {
        while (memory->free[class]) {
            struct header *block = memory->free[class];
            memory->free[class] = block->next;
            free(block);
        }
    }
    free(memory);
}
