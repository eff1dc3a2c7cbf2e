// SPDX-License-Identifier: Apache-2.0

import Glibc
import NodeConfiguration

/// What is to be said of the disk under the state directory.
struct DiskCheck: Equatable {
    /// Less than this, and the node cannot even keep what it must: as much as the spool leaves free, 32 MiB.
    static let least = 32 << 20
    /// Less than this is soon nothing.
    static let comfortable = 256 << 20
    private static let fewestFiles = 100

    var path: String
    /// For this user.
    var freeBytes: Int
    /// Files that can still be made; nil where the file system does not count.
    var freeFiles: Int?
    /// Nil: there is no spool.
    var spoolLimit: Int?
    /// What it takes already.
    var spoolSize = 0

    var finding: Finding {
        let free = "\(Format.bytes(freeBytes)) free"
        if freeBytes < Self.least { return finding(.failed, "\(free): make room") }
        if let freeFiles, freeFiles < Self.fewestFiles {
            return finding(.failed, "\(free), but only \(freeFiles) more files can be made: remove some (df -i)")
        }
        if let spoolLimit {
            let growth = max(0, spoolLimit - spoolSize)
            if freeBytes - Self.least < growth {
                return finding(
                    .warning,
                    "\(free), and the spool may grow by \(Format.bytes(growth)): make room, or lower spool.max_bytes")
            }
        }
        if freeBytes < Self.comfortable { return finding(.warning, "\(free): make room soon") }
        return finding(.ok, free)
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.machine, "disk of \(path)", grade, text)
    }
}

extension DiskCheck {
    /// Looks at the disk of a state directory, or of what is above it; nil where that cannot be seen.
    init?(lookingAt state: String, spool: Configuration.Spool?) {
        var path = state
        var status = statvfs()
        while statvfs(path, &status) != 0 {
            guard errno == ENOENT, let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return nil }
            path = String(path[..<slash])
        }
        var size = 0
        if let spool {
            for suffix in ["", "-wal"] {
                var file = stat()
                if stat(spool.file + suffix, &file) == 0 { size += Int(file.st_size) }
            }
        }
        self.init(
            path: state,
            freeBytes: Int(
                clamping: UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue),
            freeFiles: status.f_files == 0 ? nil : Int(clamping: status.f_favail), spoolLimit: spool?.maximumBytes,
            spoolSize: size)
    }
}
