// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The state of the lock on a state directory: whether a node uses the directory.
package enum LockState: Equatable, Sendable {
    /// No node uses the directory.
    case free
    /// A node uses the directory; its pid, if the lock file contains it.
    case held(pid: Int32?)
    /// This user cannot read the lock file.
    case unknown(reason: String)

    /// Tests the lock of a state directory. Writes nothing, but holds a free lock in shared mode for a moment.
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

    /// Whether a node certainly uses the directory.
    package var isHeld: Bool { if case .held = self { true } else { false } }
}
