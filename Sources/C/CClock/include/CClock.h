// SPDX-License-Identifier: Apache-2.0

#include <stdint.h>

// The monotonic clock, in nanoseconds since an arbitrary time before the process started (CLOCK_MONOTONIC).
int64_t cclock_monotonic(void);
// Unix time in milliseconds (CLOCK_REALTIME).
int64_t cclock_unix(void);
