// SPDX-License-Identifier: Apache-2.0

#include "CClock.h"

#include <time.h>

// Weak: in a program that links CWorld, the definitions of CWorld replace these. The node does not
// link CWorld, so nothing in the node can change its clocks.

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
