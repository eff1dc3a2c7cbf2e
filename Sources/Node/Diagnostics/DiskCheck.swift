// SPDX-License-Identifier: Apache-2.0

import Glibc
import NodeConfiguration
import Settings

/// Checks the free space for the state directory.
struct DiskCheck: Equatable {
    /// Free bytes that the node needs, 32 MiB: as many as the spool leaves free (`Spool.diskReserve`).
    static let minimumFree = 32 << 20
    /// Less free space than this, 256 MiB, is a warning.
    static let comfortable = 256 << 20
    /// Fewer free inodes than this are a failure.
    private static let fewestFiles = 100

    /// The state directory.
    var path: String
    /// Bytes available to this user.
    var freeBytes: Int
    /// Free inodes; `nil` if the file system does not count them.
    var freeFiles: Int?
    /// `spool.max_bytes`; `nil` if the spool is disabled.
    var spoolLimit: Int?
    /// Bytes that the spool occupies already.
    var spoolSize = 0

    var finding: Finding {
        let free = "\(Format.bytes(freeBytes)) free"
        if freeBytes < Self.minimumFree {
            return finding(.failed, "\(free), but the node needs \(Format.bytes(Self.minimumFree)): free up space")
        }
        if let freeFiles, freeFiles < Self.fewestFiles {
            return finding(.failed, "\(free), but only \(freeFiles) free inodes (df -i): delete files")
        }
        if let spoolLimit {
            let growth = max(0, spoolLimit - spoolSize)
            if freeBytes - Self.minimumFree < growth {
                return finding(
                    .warning,
                    "\(free), but the spool may grow by \(Format.bytes(growth)): free up space, or lower spool.max_bytes"
                )
            }
        }
        if freeBytes < Self.comfortable {
            return finding(.warning, "\(free), less than \(Format.bytes(Self.comfortable)): free up space soon")
        }
        return finding(.ok, free)
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.machine, "disk of \(path)", grade, text)
    }
}

extension DiskCheck {
    /// Reads the free space for a state directory, or for its nearest existing parent; `nil` if that fails.
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
