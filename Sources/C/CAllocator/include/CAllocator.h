// SPDX-License-Identifier: Apache-2.0

// The settings that jemalloc reads when it starts (jemalloc(3), "TUNING"); nobody reads them if it is not linked.
extern const char *malloc_conf;
