// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import Glibc
import Handles
import Settings
import Store

/// Checks the state directory.
package struct StateCheck {
    /// The kind of file at the path.
    package enum Kind: Equatable {
        /// Nothing exists at the path. `isPossible` tells whether the node can create the directory.
        case missing(isPossible: Bool, reason: String)
        case directory
        case other
    }

    var path: String
    var kind: Kind
    /// The permission bits.
    package var mode: mode_t = 0o700
    var owner: uid_t
    /// The user that runs the check.
    var user: uid_t
    /// The reason why the directory is not writable; `nil` if it is.
    var writeFailure: String?
    /// An entry in the directory or below it that another user owns, and that user.
    var foreignEntry: (path: String, owner: uid_t)?
    var lock: LockState

    /// The user that runs the node: the owner of the directory, or, before it exists, the user that runs the check.
    var nodeUser: uid_t { kind == .directory ? owner : user }

    var findings: [Finding] {
        switch kind {
        case .missing(true, _): return [finding(.ok, "does not exist yet; the node creates it with mode 0700")]
        case .missing(false, let reason):
            return [
                finding(.failed, "does not exist and cannot be created (\(reason)); run: install -d -m 700 \(path)")
            ]
        case .other: return [finding(.failed, "is not a directory: choose another path in node.state")]
        case .directory: return [directory, running]
        }
    }

    /// The reason why a node that runs as this user must not use the directory; `nil` if it may. Such a node would leave
    /// files that the directory's owner cannot open, so the next start as that owner would fail.
    package var refusal: String? {
        guard kind != .other else { return "is not a directory: choose another path in node.state" }
        guard kind == .directory else { return nil }
        guard owner == user else {
            let (name, me) = (UserName.forCommands(owner), UserName.forCommands(user))
            return "belongs to \(UserName.of(owner)), but the node runs as \(UserName.of(user)): start it with "
                + "systemctl start tocsin or sudo -u \(name) tocsin run, or change the owner with chown -R \(me): \(path)"
        }
        return foreignFile
    }

    private var foreignFile: String? {
        foreignEntry.map {
            "contains \($0.path), which belongs to \(UserName.of($0.owner)), not to \(UserName.of(owner)); run: "
                + "chown -R \(UserName.forCommands(owner)): \(path)"
        }
    }

    private var directory: Finding {
        if user != 0, owner != user { return finding(.failed, refusal ?? "") }
        if let foreignFile { return finding(.failed, foreignFile) }
        if let writeFailure {
            return finding(.failed, "is not writable (\(writeFailure)): the node has to save its state there")
        }
        guard mode & 0o022 == 0 else {
            return finding(.failed, "is writable by other users (mode \(modeText)); run: chmod 700 \(path)")
        }
        guard mode & 0o077 == 0 else {
            return finding(.warning, "is accessible to other users (mode \(modeText)); run: chmod 700 \(path)")
        }
        return finding(
            .ok, owner == user ? "accessible to its owner only" : "accessible to its owner only, \(UserName.of(owner))")
    }

    private var running: Finding {
        switch lock {
        case .free: finding(.ok, "no node uses it")
        case .held(let pid): finding(.ok, "the node is running" + (pid.map { " (pid \($0))" } ?? ""))
        case .unknown(let reason):
            finding(.warning, "cannot tell whether a node uses it (\(reason)): run the check as the node's user")
        }
    }

    private var modeText: String { "0" + String(mode, radix: 8) }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding { Finding(.state, path, grade, text) }
}

extension StateCheck {
    /// Reads the state of the directory.
    package init(lookingAt path: String) {
        let user = geteuid()
        var status = stat()
        guard stat(path, &status) == 0 else {
            let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
            let isPossible = errno == ENOENT && access(parent, W_OK | X_OK) == 0
            self.init(
                path: path, kind: .missing(isPossible: isPossible, reason: String(cString: strerror(errno))),
                owner: user, user: user, lock: .free)
            return
        }
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        let isWritable = access(path, W_OK | X_OK) == 0
        let reason = isWritable ? nil : String(cString: strerror(errno))
        self.init(
            path: path, kind: isDirectory ? .directory : .other, mode: status.st_mode & 0o777, owner: status.st_uid,
            user: user, writeFailure: reason,
            foreignEntry: isDirectory ? Self.foreignFile(in: path, owner: status.st_uid) : nil,
            lock: isDirectory ? LockState(ofStateAt: path) : .free)
    }

    /// Maximum entries to examine in the directory and below it. The node creates a few dozen.
    private static let maximumEntries = 1000

    private static func foreignFile(in path: String, owner: uid_t) -> (path: String, owner: uid_t)? {
        var left = maximumEntries
        func look(_ directory: String, depth: Int) -> (path: String, owner: uid_t)? {
            guard depth > 0, let stream = opendir(directory) else { return nil }
            defer { closedir(stream) }
            while left > 0, let entry = readdir(stream) {
                left -= 1
                let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                    String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
                }
                // The file system creates lost+found in its top directory.
                guard ![".", "..", "lost+found"].contains(name) else { continue }
                var status = stat()
                guard lstat("\(directory)/\(name)", &status) == 0 else { continue }
                if status.st_uid != owner { return ("\(directory)/\(name)", status.st_uid) }
                let isDirectory = status.st_mode & S_IFMT == S_IFDIR
                if isDirectory, let found = look("\(directory)/\(name)", depth: depth - 1) { return found }
            }
            return nil
        }
        return look(path, depth: 4)
    }

    /// Checks the databases, unless a node may be running, which has checked them itself.
    func databases(spool: String?) -> [Finding] {
        guard kind == .directory, lock == .free else { return [] }
        let stores = [
            (StoreKind.standing, Optional("\(path)/standing.sqlite")), (StoreKind.spool, spool),
            (StoreKind.handles, Optional("\(path)/handles.sqlite")),
        ]
        return stores.compactMap { kind, file -> Finding? in
            guard let file, access(file, F_OK) == 0 else { return nil }
            do {
                try StoreFile.inspect(kind, at: file)
                return Finding(.state, file, .ok, "compatible with this version")
            } catch {
                return Finding(.state, file, .failed, "\(error)")
            }
        }
    }
}
