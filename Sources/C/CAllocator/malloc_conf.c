// SPDX-License-Identifier: Apache-2.0

#include "CAllocator.h"

// One for the loop's thread and one for the others, in place of four for each processor: each keeps memory for later.
const char *malloc_conf = "narenas:2";
