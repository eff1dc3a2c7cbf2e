// SPDX-License-Identifier: Apache-2.0

#include "CWorld.h"

#include <time.h>

// These functions replace the weak definitions in CClock. Before the first cworld_set_clocks they
// read the system's clocks, because the same program also runs benchmarks in real time.

static struct {
    int is_virtual;
    int64_t monotonic;
    int64_t unix_milliseconds;
} clocks;

void cworld_set_clocks(int64_t monotonic, int64_t unix_milliseconds) {
    clocks.is_virtual = 1;
    clocks.monotonic = monotonic;
    clocks.unix_milliseconds = unix_milliseconds;
}

int64_t cclock_monotonic(void) {
    if (clocks.is_virtual) return clocks.monotonic;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int64_t cclock_unix(void) {
    if (clocks.is_virtual) return clocks.unix_milliseconds;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

// swift/Runtime/Concurrency.h
typedef __attribute__((swiftcall)) void (*enqueue)(void *job);
extern __attribute__((swiftcall)) void (*swift_task_enqueueGlobal_hook)(void *job, enqueue original);

static void (*run_stray_job)(void *job);

static __attribute__((swiftcall)) void pass_on(void *job, enqueue original) {
    (void)original;
    run_stray_job(job);
}

void cworld_take_stray_jobs(void (*run)(void *job)) {
    run_stray_job = run;
    swift_task_enqueueGlobal_hook = pass_on;
}
