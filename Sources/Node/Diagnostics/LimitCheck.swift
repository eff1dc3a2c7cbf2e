// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Glibc
import NodeConfiguration
import Settings

/// Checks the resource limits of a process (getrlimit(2)).
struct LimitCheck: Equatable {
    /// Locked memory that the keys need, in bytes: 64 pages, one for each key. A page has 4 KiB, on ARM up to 64 KiB.
    static let lockedMemory = 64 * UInt64(sysconf(Int32(_SC_PAGESIZE)))

    /// The process: `this shell`, or the running node with its pid.
    var process: String
    /// Whether the process is the running node.
    var isNode: Bool
    /// Maximum number of open files.
    var files: UInt64
    /// Maximum locked memory, in bytes.
    var locked: UInt64
    /// Maximum size of a core dump, in bytes.
    var core: UInt64

    /// Compares the limits with the needs of the node.
    /// - Parameters:
    ///   - connections: `limits.connections`.
    ///   - others: descriptors that are not available to senders.
    func findings(connections: Int, others: Int) -> [Finding] {
        [descriptors(connections, others), lockedMemory, coreDump]
    }

    private func descriptors(_ connections: Int, _ others: Int) -> Finding {
        let left = Int(clamping: files) - others
        let cure = "raise the limit: ulimit -n \(connections + others), or LimitNOFILE=\(connections + others)"
        return if left >= connections {
            finding("open files", .ok, "the limit of \(files) is sufficient")
        } else if left < 1 {
            finding("open files", .failed, "the limit of \(files) leaves none for senders: \(cure)")
        } else {
            finding(
                "open files", .warning,
                "the limit of \(files) leaves \(left) for senders, but limits.connections is \(connections): \(cure)")
        }
    }

    private var lockedMemory: Finding {
        if locked >= Self.lockedMemory { return finding("locked memory", .ok, "sufficient for all keys") }
        return finding(
            "locked memory", .warning,
            "the limit of \(Format.bytes(Int(clamping: locked))) is too low, so keys may be swapped to disk: raise it with"
                + " ulimit -l 8192, or LimitMEMLOCK=8M")
    }

    private var coreDump: Finding {
        if core == 0 { return finding("core dumps", .ok, "off") }
        guard isNode else { return finding("core dumps", .ok, "the node turns them off when it starts") }
        return finding(
            "core dumps", .warning,
            "on: a crash would write keys to disk. Turn them off with ulimit -c 0, or LimitCORE=0")
    }

    private func finding(_ limit: String, _ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.machine, "\(limit) of \(process)", grade, text)
    }
}

extension LimitCheck {
    /// Parses the text of `/proc/PID/limits`; `nil` if a limit is missing. For open files the hard limit counts, because
    /// the node raises its soft limit.
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
        self.init(process: whose, isNode: isNode, files: files, locked: locked, core: core)
    }

    /// Reads the limits of the running node. If no node runs, reads the limits of this process, which a node started from
    /// here would inherit. `nil` if the system does not provide them.
    /// - Parameter node: the pid of the running node.
    static func read(node: Int32?) -> LimitCheck? {
        func text(of process: String) -> String? {
            let bytes = try? Data(contentsOf: URL(filePath: "/proc/\(process)/limits"))
            return bytes.map { String(decoding: $0, as: UTF8.self) }
        }
        if let node, let text = text(of: "\(node)") {
            return LimitCheck(of: "the node (pid \(node))", isNode: true, procText: text)
        }
        return text(of: "self").flatMap { LimitCheck(of: "this shell", isNode: false, procText: $0) }
    }
}
