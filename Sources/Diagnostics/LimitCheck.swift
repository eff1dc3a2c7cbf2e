// SPDX-License-Identifier: Apache-2.0

import Glibc
import NodeConfiguration

/// What is to be said of a process's limits (getrlimit(2)).
struct LimitCheck: Equatable {
    /// What the keys take, with the guard pages around them.
    static let lockedMemory: UInt64 = 256 << 10

    /// Whose limits: `this shell`, or the running node.
    var whose: String
    /// Whether it is the node.
    var isNode: Bool
    /// Open files at most.
    var files: UInt64
    /// Bytes of memory that may be locked.
    var locked: UInt64
    /// Bytes of a core dump.
    var core: UInt64

    /// - Parameters:
    ///   - connections: `limits.connections`.
    ///   - others: descriptors for what is no sender.
    func findings(connections: Int, others: Int) -> [Finding] {
        [descriptors(connections, others), lockedMemory, coreDump]
    }

    private func descriptors(_ connections: Int, _ others: Int) -> Finding {
        let subject = "open files of \(whose)"
        let left = Int(clamping: files) - others
        if left >= connections { return Finding(.machine, subject, .ok, "\(files) are enough") }
        let cure = "raise the limit: ulimit -n \(connections + others), LimitNOFILE=\(connections + others)"
        if left < 1 { return Finding(.machine, subject, .failed, "\(files) leave none for senders: \(cure)") }
        return Finding(
            .machine, subject, .warning,
            "\(files) leave \(left) for senders, and limits.connections is \(connections): \(cure)")
    }

    private var lockedMemory: Finding {
        let subject = "locked memory of \(whose)"
        if locked >= Self.lockedMemory { return Finding(.machine, subject, .ok, "enough for all keys") }
        return Finding(
            .machine, subject, .warning,
            "too little (\(Format.bytes(Int(clamping: locked)))), so that keys may get into swap space: ulimit -l 8192,"
                + " LimitMEMLOCK=8M")
    }

    private var coreDump: Finding {
        let subject = "core dumps of \(whose)"
        if core == 0 { return Finding(.machine, subject, .ok, "off") }
        guard isNode else { return Finding(.machine, subject, .ok, "the node forbids itself any when it starts") }
        return Finding(
            .machine, subject, .warning,
            "on: a crash would write keys to disk. Switch them off: ulimit -c 0, LimitCORE=0")
    }
}

extension LimitCheck {
    /// Those of a process, from the text of its `/proc/PID/limits`; nil where they are not there. Of open files, a node
    /// takes as many as it may.
    init?(of whose: String, isNode: Bool, procText text: String) {
        func limit(_ name: String, column: Int) -> UInt64? {
            for line in text.split(separator: "\n") where line.hasPrefix(name) {
                let words = line.dropFirst(name.count).split(separator: " ")
                guard column < words.count else { return nil }
                return words[column] == "unlimited" ? .max : UInt64(words[column])
            }
            return nil
        }
        guard let files = limit("Max open files", column: 1), let locked = limit("Max locked memory", column: 0),
            let core = limit("Max core file size", column: 0)
        else { return nil }
        self.init(whose: whose, isNode: isNode, files: files, locked: locked, core: core)
    }

    /// Those of a running node, or else of this process, as a node gets them that is started here; nil where the system
    /// does not say.
    /// - Parameter node: its number.
    static func look(node: Int32?) -> LimitCheck? {
        if let node, let text = text(of: "/proc/\(node)/limits") {
            return LimitCheck(of: "the node (pid \(node))", isNode: true, procText: text)
        }
        return text(of: "/proc/self/limits").flatMap { LimitCheck(of: "this shell", isNode: false, procText: $0) }
    }

    private static func text(of file: String) -> String? {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
    }
}
