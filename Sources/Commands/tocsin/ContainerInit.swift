// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The duties of the first process of a container (pid_namespaces(7)): it passes signals on, and reaps the processes
/// whose parents have ended, such as those of health checks. The node does neither, so it runs as the second process in
/// a container.
enum ContainerInit {
    /// `SI_KERNEL` of <asm-generic/siginfo.h>: a signal from a terminal's keyboard, which all processes of its group get.
    private static let fromKernel: Int32 = 0x80

    /// If this is the first process, starts the program again as its child and does not return: this process ends with
    /// the child's exit status. Returns if the child cannot be started.
    static func runIfFirst() {
        guard getpid() == 1 else { return }
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        // If SIGCHLD were ignored, it would not arrive, and the kernel would reap the child.
        signal(SIGCHLD, SIG_DFL)
        sigprocmask(SIG_BLOCK, &all, &before)
        guard let child = start(before) else {
            sigprocmask(SIG_SETMASK, &before, nil)
            return
        }
        while true {
            var info = siginfo_t()
            let signal = sigwaitinfo(&all, &info)
            if signal == SIGCHLD {
                if let status = reap(child) { exit(status) }
            } else if signal > 0, info.si_code != fromKernel {
                kill(child, signal)
            }
        }
    }

    private static func start(_ mask: sigset_t) -> pid_t? {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = mask
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var child: pid_t = 0
        let error = posix_spawn(&child, "/proc/self/exe", nil, &attributes, CommandLine.unsafeArgv, environ)
        return error == 0 ? child : nil
    }

    /// Reaps all processes that have ended.
    /// - Returns: the exit status if the child is one of them; as in a shell, 128 plus the signal's number if a signal
    ///   ended it.
    private static func reap(_ child: pid_t) -> Int32? {
        var result: Int32?
        var status: Int32 = 0
        while case let process = waitpid(-1, &status, WNOHANG), process > 0 {
            guard process == child else { continue }
            let signal = status & 0x7F
            result = signal == 0 ? status >> 8 & 0xFF : 128 + signal
        }
        return result
    }
}
