// SPDX-License-Identifier: Apache-2.0

#include "CClock.h"

#include <time.h>

// Weak: a program that links CWorld has its definitions in place of these. The node does not link it, so that nothing in
// it can change its clocks.

__attribute__((weak)) int64_t cclock_monotonic(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((weak)) int64_t cclock_unix(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}
