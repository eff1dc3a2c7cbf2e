// SPDX-License-Identifier: Apache-2.0

import Glibc

/// This program, to be started again as another process.
enum Program {
    /// Starts it in a session of its own, so that a signal from the terminal does not reach it.
    /// - Parameters:
    ///   - arguments: its arguments.
    ///   - descriptors: what it has beside the standard ones, from 3 up.
    /// - Returns: its process id.
    static func start(_ arguments: [String], passing descriptors: [Int32]) throws(LocalSocket.Failure) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        // Copies the descriptors to high numbers first, so that none is overwritten before it is copied.
        let offset: Int32 = 64
        for (index, descriptor) in descriptors.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, offset + Int32(clamping: index))
        }
        for index in descriptors.indices {
            posix_spawn_file_actions_adddup2(&actions, offset + Int32(clamping: index), 3 + Int32(clamping: index))
            posix_spawn_file_actions_addclose(&actions, offset + Int32(clamping: index))
        }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) | Self.newSession)
        var texts = (["tocsin"] + arguments).map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        var process: pid_t = 0
        guard posix_spawn(&process, "/proc/self/exe", &actions, &attributes, &texts, environ) == 0 else {
            throw .closed
        }
        return process
    }

    /// `POSIX_SPAWN_SETSID` of <spawn.h>, which Swift's Glibc does not import.
    private static let newSession: Int16 = 0x80
}
