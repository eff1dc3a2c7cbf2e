// SPDX-License-Identifier: Apache-2.0

#include "CAllocator.h"

// Two arenas in place of jemalloc's four for each processor: each arena keeps freed memory for
// later.
const char *malloc_conf = "narenas:2";
