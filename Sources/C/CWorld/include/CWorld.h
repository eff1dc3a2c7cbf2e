// SPDX-License-Identifier: Apache-2.0

#include <stdint.h>

// Replaces the system's clocks and Swift's global executor in a program that simulates a world. No
// installed program links it.

// Sets the clocks of CClock.h, in nanoseconds and in milliseconds of Unix time, until the next
// call.
void cworld_set_clocks(int64_t monotonic, int64_t unix_milliseconds);

// Makes Swift's runtime pass each job that names no executor to `run`.
void cworld_take_stray_jobs(void (*run)(void *job));
