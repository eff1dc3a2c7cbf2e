// SPDX-License-Identifier: Apache-2.0
// Counts a program's allocations. Load it with LD_PRELOAD: it replaces the functions that allocate by functions that
// count and call the next definition, of glibc or of an allocator's library such as jemalloc.
//
// The environment variable ALLOCATION_COUNTER names the file with the counters, which other processes can read at any
// time: the number of calls and the sum of their sizes in bytes, as two 64-bit integers. A realloc counts as one call
// with its new size. Deallocations are not counted. An allocator that is linked statically cannot be replaced, and its
// calls are not counted; neither are those of interfaces of its own, such as jemalloc's mallocx and operator new.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct counters {
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
};

static struct counters private_counters;
static _Atomic(struct counters *) counters = &private_counters;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static void *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);

// Serves the allocations of dlsym itself, while it looks up the functions above. They are never released.
static _Alignas(16) unsigned char bootstrap[16 * 1024];
static size_t bootstrap_used;

static int is_from_bootstrap(const void *pointer) {
    return (uintptr_t)pointer - (uintptr_t)bootstrap < sizeof bootstrap;
}

static void *bootstrap_allocate(size_t size, size_t alignment) {
    size_t start = (bootstrap_used + alignment - 1) & ~(alignment - 1);
    if (size > sizeof bootstrap || start > sizeof bootstrap - size) return NULL;
    bootstrap_used = start + size;
    return bootstrap + start;
}

static void *lookup(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

// Looks up the next definitions at the first call, which happens before the program starts threads.
// Returns false during the lookup itself.
static int is_ready(void) {
    static int state;  // 0: not looked up, 1: in progress, 2: done
    if (__builtin_expect(state == 2, 1)) return 1;
    if (state == 1) return 0;
    state = 1;
    next_malloc = lookup("malloc");
    next_calloc = lookup("calloc");
    next_realloc = lookup("realloc");
    next_posix_memalign = lookup("posix_memalign");
    next_aligned_alloc = lookup("aligned_alloc");
    next_memalign = lookup("memalign");
    next_free = lookup("free");
    state = 2;
    return 1;
}

static void count(uint64_t size) {
    struct counters *now = atomic_load_explicit(&counters, memory_order_relaxed);
    atomic_fetch_add_explicit(&now->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&now->bytes, size, memory_order_relaxed);
}

// Continues in the file, once the C library knows the environment.
__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("ALLOCATION_COUNTER");
    if (!path) return;
    // This process counts, not those that it starts.
    unsetenv("LD_PRELOAD");
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return;
    if (ftruncate(descriptor, sizeof(struct counters)) == 0) {
        struct counters *shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (shared != MAP_FAILED) {
            struct counters *before = atomic_exchange(&counters, shared);
            atomic_fetch_add(&shared->calls, atomic_load(&before->calls));
            atomic_fetch_add(&shared->bytes, atomic_load(&before->bytes));
        }
    }
    close(descriptor);
}

void *malloc(size_t size) {
    count(size);
    return is_ready() ? next_malloc(size) : bootstrap_allocate(size, 16);
}

void *calloc(size_t number, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(number, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    count(total);
    // The bootstrap buffer is zero, and each of its bytes is used once.
    return is_ready() ? next_calloc(number, size) : bootstrap_allocate(total, 16);
}

void *realloc(void *pointer, size_t size) {
    count(size);
    if (is_ready() && !is_from_bootstrap(pointer)) return next_realloc(pointer, size);
    void *moved = is_ready() ? next_malloc(size) : bootstrap_allocate(size, 16);
    if (moved && pointer) {
        // The old size is unknown; the buffer ends after it in any case.
        size_t rest = sizeof bootstrap - ((uintptr_t)pointer - (uintptr_t)bootstrap);
        memcpy(moved, pointer, size < rest ? size : rest);
    }
    return moved;
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    count(size);
    if (is_ready()) return next_posix_memalign(result, alignment, size);
    *result = bootstrap_allocate(size, alignment);
    return *result ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(size);
    return is_ready() ? next_aligned_alloc(alignment, size) : bootstrap_allocate(size, alignment);
}

void *memalign(size_t alignment, size_t size) {
    count(size);
    return is_ready() ? next_memalign(alignment, size) : bootstrap_allocate(size, alignment);
}

void free(void *pointer) {
    if (!pointer || is_from_bootstrap(pointer)) return;
    if (is_ready()) next_free(pointer);
}
