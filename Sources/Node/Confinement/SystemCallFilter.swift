// SPDX-License-Identifier: Apache-2.0

import CSeccomp
import Glibc

/// The system calls that a process may make; seccomp refuses all others. The filter holds for the thread that applies
/// it and for all threads and processes that it starts, and cannot be lifted.
package struct SystemCallFilter: Sendable {
    /// What happens when a process makes another system call.
    package enum Response: Sendable {
        /// The call fails with EPERM.
        case refuse
        /// The call waits until the process that reads the returned descriptor lets it fail with EPERM; see
        /// ``RefusedCall``.
        case report
        /// The process is killed.
        case kill
    }

    /// Why the filter cannot be applied.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The names of the allowed calls. Names that this machine's libseccomp or processor does not have are skipped.
    package let names: [String]
    /// Whether sockets for UDP are allowed.
    private var usesUDP = false

    /// What the node and its tor need: threads, memory, files, sockets, time and signals. Not among them are, for
    /// example, ptrace, mount, namespaces, kernel modules, BPF, keys of the kernel, and io_uring.
    /// - Parameter mayExecute: whether the node starts programs: its own tor, which learns this machine's address by UDP.
    package static func node(mayExecute: Bool) -> SystemCallFilter {
        SystemCallFilter(
            names: memory + threads + files + sockets + time + signals + facts + (mayExecute ? execution : []),
            usesUDP: mayExecute)
    }

    /// What the supervisor needs, and the processes that it starts, which inherit the filter. Only a resolver uses the
    /// network.
    package static let supervisor = SystemCallFilter(
        names: memory + threads + files + messages + lookups + time + signals + facts + execution + confinement,
        usesUDP: true)

    /// What a resolver needs.
    package static let resolver = SystemCallFilter(
        names: memory + threads + files + messages + lookups + time + signals + facts, usesUDP: true)

    /// What a key holder needs until it has read the keys: no sockets but those that it was given.
    package static let keyHolderStart = SystemCallFilter(
        names: memory + threads + files + messages + time + signals + facts + confinement)

    /// What a key holder needs once it has the keys: to read requests, sign and answer, and to write to its log.
    package static let keyHolder = SystemCallFilter(
        names: memory + messages + time + signals + [
            "close", "exit", "exit_group", "fstat", "newfstatat", "statx", "fcntl", "fcntl64", "ftruncate",
            "ftruncate64",
            "futex", "futex_time64", "getpid", "gettid", "getrandom", "pread64", "pwrite64", "read", "readv", "write",
            "writev", "lseek", "_llseek", "restart_syscall", "rseq", "sched_yield", "set_robust_list",
            "sched_getaffinity",
        ])

    private static let memory = [
        "brk", "madvise", "membarrier", "mlock", "mlock2", "mmap", "mmap2", "mprotect", "mremap", "munlock", "munmap",
    ]
    private static let threads = [
        "arch_prctl", "capget", "clone", "clone3", "exit", "exit_group", "fork", "vfork", "futex", "futex_time64",
        "futex_waitv", "get_robust_list", "get_thread_area", "gettid", "getpriority", "setpriority", "prctl",
        "restart_syscall", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
        "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_setaffinity", "sched_setscheduler",
        "sched_yield", "set_robust_list", "set_thread_area", "set_tid_address", "set_tls", "wait4", "waitid",
        "waitpid", "pidfd_open", "pidfd_send_signal",
    ]
    private static let files = [
        "_llseek", "access", "chdir", "chmod", "close", "close_range", "copy_file_range", "creat", "dup", "dup2",
        "dup3", "eventfd", "eventfd2", "faccessat", "faccessat2", "fadvise64", "fadvise64_64", "fallocate", "fchdir",
        "fchmod", "fchmodat", "fchmodat2", "fchown", "fchown32", "fchownat", "fcntl", "fcntl64", "fdatasync", "flock",
        "fstat", "fstat64", "fstatat64", "fstatfs", "fstatfs64", "fsync", "ftruncate", "ftruncate64", "getcwd",
        "getdents", "getdents64", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioctl",
        "link", "linkat", "lseek", "lstat", "lstat64", "memfd_create", "mkdir", "mkdirat", "msync", "newfstatat",
        "open", "openat", "openat2", "pipe", "pipe2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
        "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2",
        "rmdir", "sendfile", "sendfile64", "splice", "stat", "stat64", "statfs", "statfs64", "statx", "symlink",
        "symlinkat", "sync_file_range", "truncate", "truncate64", "umask", "unlink", "unlinkat", "utime",
        "utimensat", "utimes", "write", "writev",
    ]
    /// Calls for existing sockets.
    private static let messages = [
        "_newselect", "getsockopt", "poll", "ppoll", "ppoll_time64", "pselect6", "recv", "recvfrom", "recvmsg",
        "select",
        "send", "sendmsg", "sendto", "shutdown",
    ]
    /// Calls to query name servers, over UDP and TCP.
    private static let lookups = [
        "bind", "connect", "getpeername", "getsockname", "recvmmsg", "sendmmsg", "setsockopt", "socket", "socketcall",
    ]
    private static let sockets =
        messages + [
            "accept", "accept4", "bind", "connect", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
            "epoll_pwait2", "epoll_wait", "getpeername", "getsockname", "listen", "recvmmsg", "sendmmsg", "setsockopt",
            "socket", "socketcall", "socketpair",
        ]
    private static let time = [
        "clock_getres", "clock_gettime", "clock_gettime64", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
        "timer_create", "timer_delete", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
        "times", "alarm", "getitimer", "setitimer",
    ]
    private static let signals = [
        "kill", "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
        "rt_sigtimedwait", "sigaction", "sigaltstack", "signalfd", "signalfd4", "sigprocmask", "sigreturn", "tgkill",
        "tkill",
    ]
    private static let facts = [
        "getcpu", "getegid", "getegid32", "geteuid", "geteuid32", "getgid", "getgid32", "getgroups", "getgroups32",
        "getpgid", "getpgrp", "getpid", "getppid", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage",
        "getsid", "getuid", "getuid32", "prlimit64", "setrlimit", "sysinfo", "ugetrlimit", "uname",
    ]
    private static let execution = ["execve", "setpgid", "setsid"]
    /// Calls with which a process confines itself further.
    private static let confinement = [
        "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    ]

    /// All flags of clone(2) that make a namespace.
    private static let namespaceFlags: UInt64 = 0x7E02_0080
    /// The requests of ioctl(2) that type into a terminal: TIOCSTI and TIOCLINUX.
    private static let typing: [UInt32] = [0x5412, 0x541C]
    /// The bits of a socket's type, without those that set the descriptor's flags.
    private static let typeBits: UInt32 = 0xF

    private typealias KindOfSocket = (family: Int32, type: Int32, protocols: [Int32])

    /// The sockets that the node uses: all kinds of unix sockets, TCP, and netlink, with which resolver and tor read
    /// the kernel's tables of addresses. Not raw IP sockets, and no other protocol such as MPTCP, to which Landlock's
    /// rules for TCP do not apply.
    private static let kindsOfSocket: [KindOfSocket] = [
        (AF_UNIX, stream, [0]), (AF_UNIX, datagram, [0]), (AF_UNIX, packets, [0]),
        (AF_INET, stream, [0, 6]), (AF_INET6, stream, [0, 6]),
        (AF_NETLINK, datagram, [0]), (AF_NETLINK, raw, [0]),
    ]
    private static let udp: [KindOfSocket] = [(AF_INET, datagram, [0, 17]), (AF_INET6, datagram, [0, 17])]
    /// SOCK_STREAM, SOCK_DGRAM, SOCK_RAW and SOCK_SEQPACKET.
    private static let (stream, datagram, raw, packets): (Int32, Int32, Int32, Int32) = (1, 2, 3, 5)

    /// Masks and values such that each 32-bit number, except the excluded ones, matches exactly one pair: in the binary
    /// tree of all numbers, they are the subtrees next to the paths of the excluded numbers.
    static func allBut(_ excluded: [UInt32]) -> [(mask: UInt32, value: UInt32)] {
        var found: [(mask: UInt32, value: UInt32)] = []
        func descend(_ mask: UInt32, _ value: UInt32, _ bit: UInt32) {
            guard excluded.contains(where: { $0 & mask == value }) else { return found.append((mask, value)) }
            guard bit != 0 else { return }
            for branch in [0, bit] { descend(mask | bit, value | branch, bit >> 1) }
        }
        descend(0, 0, 1 << 31)
        return found
    }

    /// Allows a call with harmless arguments only, if the call has harmful ones.
    /// - Returns: whether it is such a call.
    private func allowSome(_ name: String, _ call: Int32, in filter: scmp_filter_ctx) -> Bool {
        func allow(_ argument: UInt32, _ comparison: scmp_compare, _ value: UInt64, _ second: UInt64 = 0) {
            _ = cseccomp_rule_if(filter, cseccomp_allow(), call, argument, comparison, value, second)
        }
        switch name {
        case "clone": allow(0, SCMP_CMP_MASKED_EQ, Self.namespaceFlags, 0)
        // The flags are in memory, where a filter cannot see them. After ENOSYS the C library uses clone.
        case "clone3": _ = cseccomp_rule(filter, cseccomp_missing(), call)
        case "socket", "socketpair":
            let kinds = Self.kindsOfSocket + (usesUDP ? Self.udp : [])
            for (family, type, protocols) in kinds where name == "socket" || family == AF_UNIX {
                for number in protocols {
                    _ = cseccomp_rule_if_three(
                        filter, cseccomp_allow(), call, UInt32(family), Self.typeBits, UInt32(type), UInt32(number))
                }
            }
        // The kernel takes 32 bits of the request: a comparison of all 64 would let others through.
        case "ioctl":
            for part in Self.allBut(Self.typing) { allow(1, SCMP_CMP_MASKED_EQ, UInt64(part.mask), UInt64(part.value)) }
        // Only the limits of this process.
        case "prlimit64": allow(0, SCMP_CMP_EQ, 0)
        default: return false
        }
        return true
    }

    /// Confines this thread.
    /// - Returns: for ``Response/report`` the descriptor from which another process reads the refused calls. While nobody
    ///   has it, a refused call fails with ENOSYS.
    /// - Throws: ``Failure``.
    @discardableResult
    package func apply(_ response: Response) throws(Failure) -> Int32? {
        let action =
            switch response {
            case .refuse: cseccomp_refuse()
            case .report: cseccomp_notify()
            case .kill: cseccomp_kill()
            }
        guard let filter = seccomp_init(action) else { throw Failure(description: "seccomp: out of memory") }
        defer { seccomp_release(filter) }
        // A binary tree in place of a list of comparisons, because every system call passes the filter.
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2)
        for name in names {
            let call = seccomp_syscall_resolve_name(name)
            guard call != __NR_SCMP_ERROR else { continue }
            // Negative: a call of other processors, for which libseccomp has no rule here.
            if !allowSome(name, call, in: filter) { _ = cseccomp_rule(filter, cseccomp_allow(), call) }
        }
        let result = seccomp_load(filter)
        guard result == 0 else {
            throw Failure(description: "seccomp: cannot load the filter: \(String(cString: strerror(-result)))")
        }
        guard response == .report else { return nil }
        let descriptor = seccomp_notify_fd(filter)
        guard descriptor >= 0 else { throw Failure(description: "seccomp: the kernel has no notifications") }
        return descriptor
    }
}

/// A system call that a filter with ``SystemCallFilter/Response/report`` has stopped.
package struct RefusedCall: Equatable, Sendable {
    /// The name of the call.
    package let name: String
    /// The id of the thread that made the call, as the reader sees it; that of the process if it has one thread.
    package let thread: Int32

    package init(name: String, thread: Int32) {
        self.name = name
        self.thread = thread
    }

    /// Waits for a refused call and lets it fail with EPERM.
    /// - Parameter descriptor: what ``SystemCallFilter/apply(_:)`` has returned.
    /// - Returns: the call; `nil` if it was interrupted meanwhile, or the descriptor cannot be read.
    package static func next(from descriptor: Int32) -> RefusedCall? {
        var request: UnsafeMutablePointer<seccomp_notif>?
        var answer: UnsafeMutablePointer<seccomp_notif_resp>?
        guard seccomp_notify_alloc(&request, &answer) == 0, let request, let answer else { return nil }
        defer { seccomp_notify_free(request, answer) }
        guard seccomp_notify_receive(descriptor, request) == 0 else { return nil }
        let name = seccomp_syscall_resolve_num_arch(request.pointee.data.arch, request.pointee.data.nr)
        defer { free(name) }
        answer.pointee.id = request.pointee.id
        answer.pointee.error = -EPERM
        guard seccomp_notify_respond(descriptor, answer) == 0 else { return nil }
        return RefusedCall(
            name: name.map { String(cString: $0) } ?? "\(request.pointee.data.nr)", thread: Int32(request.pointee.pid))
    }
}
