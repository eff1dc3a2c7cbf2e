// SPDX-License-Identifier: Apache-2.0

#include "CBuild.h"

// Volatile, because the compiler would take the value from here.
__attribute__((section(".tocsin.commit"), used)) static const volatile char commit[64] = "";

const char *tocsin_build_commit(void) { return (const char *)commit; }
