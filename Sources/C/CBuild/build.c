// SPDX-License-Identifier: Apache-2.0

#include "CBuild.h"

// Volatile: Packaging/strip replaces the value later, so the compiler must not use the one here.
__attribute__((section(".tocsin.commit"), used)) static const volatile char commit[64] = "";

const char *tocsin_build_commit(void) { return (const char *)commit; }
