// SPDX-License-Identifier: Apache-2.0

import CSeccomp
import TestSupport
import Testing

@testable import Confinement

/// The filters on a processor on which they do not run here.
@Suite(.tags(.computing)) struct ArchitectureTests {
    /// Calls that 64-bit ARM does not have, each with the one that its C library makes instead.
    private static let replacements = [
        "access": "faccessat", "chmod": "fchmodat", "creat": "openat", "dup2": "dup3", "epoll_create": "epoll_create1",
        "epoll_wait": "epoll_pwait", "eventfd": "eventfd2", "fork": "clone", "getdents": "getdents64",
        "getpgrp": "getpgid", "inotify_init": "inotify_init1", "link": "linkat", "lstat": "newfstatat",
        "mkdir": "mkdirat", "open": "openat", "pause": "ppoll", "pipe": "pipe2", "poll": "ppoll",
        "readlink": "readlinkat", "rename": "renameat", "rmdir": "unlinkat", "select": "pselect6",
        "signalfd": "signalfd4", "stat": "newfstatat", "symlink": "symlinkat", "time": "clock_gettime",
        "unlink": "unlinkat", "utime": "utimensat", "utimes": "utimensat", "vfork": "clone",
        "recv": "recvfrom", "send": "sendto", "alarm": "setitimer", "waitpid": "wait4",
    ]

    private static let filters = [
        SystemCallFilter.node(mayExecute: true), .node(mayExecute: false), .supervisor, .resolver, .keyHolderStart,
        .keyHolder,
    ]

    /// The number of a call on 64-bit ARM; negative if it has none.
    private func number(_ call: String) -> Int32 {
        seccomp_syscall_resolve_name_arch(0xC000_00B7, call)
    }

    @Test func `a filter that allows an old call allows the one that 64-bit ARM has in its place`() {
        for (old, new) in Self.replacements {
            #expect(number(old) < 0 && number(new) >= 0, "\(old), \(new)")
            for filter in Self.filters where filter.names.contains(old) {
                #expect(filter.names.contains(new), "\(new)")
            }
        }
    }

    @Test func `each filter allows on 64-bit ARM what every program does`() {
        let needed = [
            "read", "write", "close", "futex", "mmap", "munmap", "exit_group", "rt_sigreturn", "fstat", "getrandom",
        ]
        for filter in Self.filters {
            for call in needed { #expect(number(call) >= 0 && filter.names.contains(call), "\(call)") }
        }
    }
}
