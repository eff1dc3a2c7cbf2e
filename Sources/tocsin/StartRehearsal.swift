// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import FoundationEssentials
import Glibc
import NodeConfiguration
import Tor

/// Starts a node up to its sockets, and ends it: what stops it would stop `tocsin run`. Leaves behind nothing that was not
/// there before.
struct StartRehearsal {
    /// A spool of the largest size opens within this time.
    private static let patience = Duration.seconds(120)

    let configuration: Configuration

    /// What came of it; `nil` if it was not tried, because a node runs, or another user than the node's asks.
    func finding() async -> Finding? {
        let state = configuration.state
        var status = stat()
        let exists = stat(state, &status) == 0
        guard LockState(ofStateAt: state) == .free, !exists || geteuid() == 0 || status.st_uid == geteuid() else {
            return nil
        }
        let before = Set(files(in: state))
        let ownBefore = configuration.ownKeyFiles.filter { FileManager.default.fileExists(atPath: $0) }
        defer {
            for file in files(in: state) where !before.contains(Self.database(of: file)) { remove("\(state)/\(file)") }
            for file in configuration.ownKeyFiles where !ownBefore.contains(file) { remove(file) }
            if !exists { remove(state) }
        }
        do {
            let (isSuccess, text) = try await ChildProcess.output(
                of: "/proc/self/exe", ["run", "--rehearse", "--config", configuration.file], timeout: Self.patience)
            guard !isSuccess else {
                return Finding(.configuration, "tocsin run", .ok, "starts, up to its sockets")
            }
            // What the supervisor and the key holder say comes before.
            let line = text.split(separator: "\n").last { $0.hasPrefix("tocsin: ") }?.dropFirst("tocsin: ".count)
            return Finding(.configuration, "tocsin run", .failed, line.map { String($0) } ?? "ends without a word")
        } catch {
            return Finding(.configuration, "tocsin run", .warning, "cannot be tried: \(error)")
        }
    }

    /// Acts for good as the user who owns the state directory, if root asks.
    /// - Throws: the exit code, after printing the error.
    static func becomeOwner(of state: String) throws {
        var status = stat()
        guard getuid() == 0, stat(state, &status) == 0, status.st_uid != 0 else { return }
        guard setgroups(1, [status.st_gid]) == 0, setgid(status.st_gid) == 0, setuid(status.st_uid) == 0 else {
            throw fail("cannot act as the owner of \(state): \(String(cString: strerror(errno)))", .failure)
        }
    }

    /// The database of one of SQLite's own files, which must stay with it; another file itself.
    private static func database(of file: String) -> String {
        file.hasSuffix("-wal") || file.hasSuffix("-shm") ? String(file.dropLast(4)) : file
    }

    private func files(in directory: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    }

    private func remove(_ path: String) { try? FileManager.default.removeItem(atPath: path) }
}
