// SPDX-License-Identifier: Apache-2.0

// The settings that jemalloc reads when it starts (jemalloc(3), "TUNING"). Without jemalloc,
// nothing reads them.
extern const char *malloc_conf;
