// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Whether a node runs on a state directory.
package enum LockState: Equatable, Sendable {
    /// None does.
    case free
    /// One does; its number, where it can be read.
    case held(pid: Int32?)
    /// This user cannot tell.
    case unknown(reason: String)

    /// Looks at the lock file of a state directory. Nothing is written; that nobody holds the lock is found by sharing it
    /// for a moment.
    package init(ofStateAt state: String) {
        let descriptor = open("\(state)/lock", O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            self = errno == ENOENT || errno == ENOTDIR ? .free : .unknown(reason: String(cString: strerror(errno)))
            return
        }
        defer { close(descriptor) }
        if flock(descriptor, LOCK_SH | LOCK_NB) == 0 {
            self = .free
        } else if errno == EWOULDBLOCK {
            var bytes = [UInt8](repeating: 0, count: 32)
            let count = pread(descriptor, &bytes, bytes.count, 0)
            let text = String(decoding: bytes.prefix(max(0, count)).prefix { $0 != 0x0A }, as: UTF8.self)
            self = .held(pid: Int32(text))
        } else {
            self = .unknown(reason: String(cString: strerror(errno)))
        }
    }

    /// Whether a node is known to run.
    package var isHeld: Bool { if case .held = self { true } else { false } }
}
