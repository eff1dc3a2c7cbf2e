// SPDX-License-Identifier: Apache-2.0

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// <fcntl.h> defines O_PATH only with _GNU_SOURCE.
#ifndef O_PATH
#define O_PATH 010000000
#endif

// Functions in place of variadic functions and macros, which Swift cannot call.

static inline int clinux_prctl(int operation, unsigned long argument) { return prctl(operation, argument, 0UL, 0UL, 0UL); }

// Drops all capabilities (capabilities(7)) that are not among the bits of `kept`, also for programs
// that this process starts. A process without capabilities does not change. Returns 0, or -1 with
// errno.
static inline int clinux_keep_capabilities(uint64_t kept) {
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets) != 0) return -1;
    for (int capability = 0; capability < 64; capability++) {
        // Fails without CAP_SETPCAP, and for numbers that the kernel does not know.
        if (!(kept >> capability & 1)) (void)prctl(PR_CAPBSET_DROP, (unsigned long)capability, 0UL, 0UL, 0UL);
    }
    for (int half = 0; half < 2; half++) {
        uint32_t bits = (uint32_t)(kept >> (32 * half));
        sets[half].effective &= bits;
        sets[half].permitted &= bits;
        sets[half].inheritable &= bits;
    }
    return (int)syscall(SYS_capset, &header, sets);
}
static const uint64_t clinux_file_capabilities =
    1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER | 1ULL << CAP_NET_BIND_SERVICE;

// Landlock (landlock(7)). glibc has no wrappers, and headers older than the kernel lack its newer rights, so the structure
// and the numbers of the rights are here.
struct clinux_ruleset {
    uint64_t files;
    uint64_t network;
    uint64_t scopes;
};
enum { CLINUX_NETWORK_BIND = 1, CLINUX_SCOPE_SIGNAL = 2, CLINUX_RULE_PORT = 2 };
struct clinux_port { uint64_t access, port; };

static inline int clinux_landlock_version(void) {
    return (int)syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
}
static inline int clinux_landlock_create(const struct clinux_ruleset *rules, size_t size) {
    return (int)syscall(SYS_landlock_create_ruleset, rules, size, 0);
}
static inline int clinux_landlock_allow_beneath(int ruleset, int directory, uint64_t rights) {
    struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = directory };
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}
static inline int clinux_landlock_allow_port(int ruleset, uint64_t rights, uint16_t port) {
    struct clinux_port rule = { .access = rights, .port = port };
    return (int)syscall(SYS_landlock_add_rule, ruleset, CLINUX_RULE_PORT, &rule, 0);
}
static inline int clinux_landlock_restrict(int ruleset) {
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
static inline int clinux_open_path(const char *path) { return open(path, O_PATH | O_CLOEXEC); }

// Sends bytes, and `descriptor` with them unless it is negative. Does not wait: fails with EAGAIN.
static inline ssize_t clinux_send(int socket, const void *bytes, size_t count, int descriptor) {
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { .iov_base = (void *)bytes, .iov_len = count };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (descriptor >= 0) {
        memset(control, 0, sizeof control);
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}
// Receives bytes and at most one descriptor. Sets `*descriptor` to -1 if none came.
static inline ssize_t clinux_receive(int socket, void *bytes, size_t count, int *descriptor, int flags) {
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { .iov_base = bytes, .iov_len = count };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t length = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    *descriptor = -1;
    if (length < 0) return length;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        // The alignment of `control` leaves room for a second descriptor, which is closed.
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count; index++) {
            int passed;
            memcpy(&passed, CMSG_DATA(header) + index * sizeof(int), sizeof(int));
            if (index == 0) *descriptor = passed;
            else close(passed);
        }
    }
    return length;
}

static inline int clinux_pidfd_open(int process) { return (int)syscall(SYS_pidfd_open, process, 0); }
static inline int clinux_memfd(void) { return (int)syscall(SYS_memfd_create, "tocsin", 1 /* MFD_CLOEXEC */); }
static inline int clinux_exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
static inline int clinux_exit_signal(int status) { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
