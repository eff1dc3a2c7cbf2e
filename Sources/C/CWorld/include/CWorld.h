// SPDX-License-Identifier: Apache-2.0

#include <stdint.h>

// What takes the place of the system's own in a program that simulates a world. Nothing that is installed links it.

// From now on, the clocks of CClock.h show these times, until the next call.
void cworld_set_clocks(int64_t monotonic, int64_t unix_milliseconds);

// Swift's runtime passes each job that has no executor to `run`.
void cworld_take_stray_jobs(void (*run)(void *job));
