// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import FoundationEssentials
import Glibc
import NodeConfiguration
import Settings
import Tor

/// Starts a node up to its sockets, and ends it: whatever makes this start fail would make `tocsin run` fail. The start
/// creates in the state directory what the next start would create, as its owner; if that directory does not exist, a
/// temporary one takes its place.
struct StartRehearsal {
    /// A spool of the largest size opens within this time.
    private static let patience = Duration.seconds(120)

    let configuration: Configuration

    /// The result; `nil` if the start was not tried: a node runs, the user is neither root nor the node's, no temporary
    /// directory can be created, or the start would create a key outside it.
    func finding() async -> Finding? {
        let state = configuration.state
        var status = stat()
        guard lstat(state, &status) != 0 else {
            guard LockState(ofStateAt: state) == .free, geteuid() == 0 || status.st_uid == geteuid() else { return nil }
            return await finding(of: [])
        }
        guard errno == ENOENT else { return nil }
        var template = Array("\(FileManager.default.temporaryDirectory.path)/tocsin-check-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        let temporary = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer { try? FileManager.default.removeItem(atPath: temporary) }
        guard let moved = try? Configuration(file: configuration.file, state: temporary),
            moved.ownKeyFiles.allSatisfy({ moved.isInState($0) || isThere($0) })
        else { return nil }
        return await finding(of: ["--rehearse-in", temporary])
    }

    private func finding(of options: [String]) async -> Finding {
        do {
            let (isSuccess, text) = try await ChildProcess.output(
                of: "/proc/self/exe", ["run", "--rehearse", "--config", configuration.file] + options,
                timeout: Self.patience)
            guard !isSuccess else { return Finding(.configuration, "tocsin run", .ok, "starts, up to its sockets") }
            // The lines of the supervisor and the key holder come before the node's own.
            let line = text.split(separator: "\n").last { $0.hasPrefix("tocsin: ") }?.dropFirst("tocsin: ".count)
            return Finding(.configuration, "tocsin run", .failed, line.map { String($0) } ?? "ends without a word")
        } catch {
            return Finding(.configuration, "tocsin run", .warning, "cannot be tried: \(error)")
        }
    }

    private func isThere(_ file: String) -> Bool {
        var status = stat()
        return lstat(file, &status) == 0
    }

    /// If root runs the command, takes on the identity of the state directory's owner for good.
    /// - Throws: the exit code, after printing the error.
    static func becomeOwner(of state: String) throws {
        var status = stat()
        guard getuid() == 0, stat(state, &status) == 0, status.st_uid != 0 else { return }
        guard setgroups(1, [status.st_gid]) == 0, setgid(status.st_gid) == 0, setuid(status.st_uid) == 0 else {
            throw fail("cannot act as the owner of \(state): \(String(cString: strerror(errno)))", .failure)
        }
    }
}
