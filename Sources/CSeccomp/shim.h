// SPDX-License-Identifier: Apache-2.0

#include <errno.h>
#include <seccomp.h>

// Functions in place of macros and variadic functions, which Swift cannot call.

static inline uint32_t cseccomp_allow(void) { return SCMP_ACT_ALLOW; }
static inline uint32_t cseccomp_refuse(void) { return SCMP_ACT_ERRNO(EPERM); }
static inline uint32_t cseccomp_notify(void) { return SCMP_ACT_NOTIFY; }
static inline uint32_t cseccomp_kill(void) { return SCMP_ACT_KILL_PROCESS; }
static inline int cseccomp_rule(scmp_filter_ctx filter, uint32_t action, int call) {
    return seccomp_rule_add(filter, action, call, 0);
}
