// SPDX-License-Identifier: Apache-2.0

#include <errno.h>
#include <seccomp.h>

// Functions in place of macros and variadic functions, which Swift cannot call.

static inline uint32_t cseccomp_allow(void) { return SCMP_ACT_ALLOW; }
static inline uint32_t cseccomp_refuse(void) { return SCMP_ACT_ERRNO(EPERM); }
static inline uint32_t cseccomp_notify(void) { return SCMP_ACT_NOTIFY; }
static inline uint32_t cseccomp_kill(void) { return SCMP_ACT_KILL_PROCESS; }
static inline uint32_t cseccomp_missing(void) { return SCMP_ACT_ERRNO(ENOSYS); }
// Adds a rule for the calls of which one argument compares to `value` as `comparison` says. For
// SCMP_CMP_MASKED_EQ, `value` is the mask, and the masked argument must equal `second`.
static inline int cseccomp_rule_if(
    scmp_filter_ctx filter, uint32_t action, int call, unsigned int argument, enum scmp_compare comparison,
    uint64_t value, uint64_t second) {
    struct scmp_arg_cmp compare = { .arg = argument, .op = comparison, .datum_a = value, .datum_b = second };
    return seccomp_rule_add_array(filter, action, call, 1, &compare);
}
// Adds a rule for the calls whose first three arguments are these. The kernel reads 32 bits of
// each, so the rule ignores the others; `mask` says which bits of the second argument count.
static inline int cseccomp_rule_if_three(
    scmp_filter_ctx filter, uint32_t action, int call, uint32_t first, uint32_t mask, uint32_t second, uint32_t third) {
    struct scmp_arg_cmp compare[] = {
        { .arg = 0, .op = SCMP_CMP_MASKED_EQ, .datum_a = UINT32_MAX, .datum_b = first },
        { .arg = 1, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = second },
        { .arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = UINT32_MAX, .datum_b = third },
    };
    return seccomp_rule_add_array(filter, action, call, 3, compare);
}
static inline int cseccomp_rule(scmp_filter_ctx filter, uint32_t action, int call) {
    return seccomp_rule_add(filter, action, call, 0);
}
