// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import Glibc
import Store

/// What is to be said of the state directory.
package struct StateCheck {
    /// What is at the path.
    package enum Kind: Equatable {
        /// Nothing; `isPossible`: whether the node could make it.
        case missing(isPossible: Bool, reason: String)
        case directory
        case other
    }

    var path: String
    var kind: Kind
    /// Permission bits.
    package var mode: mode_t = 0o700
    var owner: uid_t
    /// Who runs the check.
    var user: uid_t
    /// Nil: it can be written to; else why not.
    var writeFailure: String?
    /// A file or directory in it whose owner is not the owner of the directory, with that owner.
    var foreign: (path: String, owner: uid_t)?
    var lock: LockState

    /// Whoever owns the directory runs the node; where there is none yet, whoever looks.
    var nodeUser: uid_t { kind == .directory ? owner : user }

    var findings: [Finding] {
        switch kind {
        case .missing(true, _): return [finding(.ok, "not there yet; the node makes it with mode 0700")]
        case .missing(false, let reason):
            return [
                finding(.failed, "not there, and cannot be made (\(reason)): make it: install -d -m 700 \(path)")
            ]
        case .other: return [finding(.failed, "not a directory: name another one in node.state")]
        case .directory: return [directory, running]
        }
    }

    /// Why a node of this user must not run on it; nil: it may. Files of another user would end the next start of the node
    /// that they belong to.
    package var refusal: String? {
        guard kind != .other else { return "is not a directory: name another one in node.state" }
        guard kind == .directory else { return nil }
        guard owner == user else {
            let (name, me) = (UserName.forCommands(owner), UserName.forCommands(user))
            return "belongs to \(UserName.of(owner)), and the node runs as \(UserName.of(user)): run it as that user, "
                + "systemctl start tocsin or sudo -u \(name) tocsin run, or give it away with chown -R \(me): \(path)"
        }
        return foreignFile
    }

    private var foreignFile: String? {
        foreign.map {
            "holds \($0.path), which belongs to \(UserName.of($0.owner)) and not to \(UserName.of(owner)): run "
                + "chown -R \(UserName.forCommands(owner)): \(path)"
        }
    }

    private var directory: Finding {
        if user != 0, owner != user { return finding(.failed, refusal ?? "") }
        if let foreignFile { return finding(.failed, foreignFile) }
        if let writeFailure {
            return finding(
                .failed, "cannot be written to (\(writeFailure)): the node keeps there what it must not forget")
        }
        guard mode & 0o022 == 0 else {
            return finding(.failed, "others can write to it (mode \(modeText)): run: chmod 700 \(path)")
        }
        guard mode & 0o077 == 0 else {
            return finding(.warning, "others can look into it (mode \(modeText)): run: chmod 700 \(path)")
        }
        return finding(.ok, owner == user ? "for its owner only" : "for its owner only, \(UserName.of(owner))")
    }

    private var running: Finding {
        switch lock {
        case .free: finding(.ok, "no node runs on it")
        case .held(let pid): finding(.ok, "the node runs" + (pid.map { " (pid \($0))" } ?? ""))
        case .unknown(let reason):
            finding(.warning, "cannot tell whether a node runs on it (\(reason)): check as the node's user")
        }
    }

    private var modeText: String { "0" + String(mode, radix: 8) }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding { Finding(.state, path, grade, text) }
}

extension StateCheck {
    /// Looks at the directory.
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
            foreign: isDirectory ? Self.foreignFile(in: path, owner: status.st_uid) : nil,
            lock: isDirectory ? LockState(ofStateAt: path) : .free)
    }

    /// Entries of the directory and of those below it that are looked at; the node makes some dozens.
    private static let mostEntries = 1000

    private static func foreignFile(in path: String, owner: uid_t) -> (path: String, owner: uid_t)? {
        var left = mostEntries
        func look(_ directory: String, depth: Int) -> (path: String, owner: uid_t)? {
            guard depth > 0, let stream = opendir(directory) else { return nil }
            defer { closedir(stream) }
            while left > 0, let entry = readdir(stream) {
                left -= 1
                let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                    String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
                }
                // The file system makes lost+found itself, where the directory is one of its own.
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

    /// What is to be said of the databases in it. Those of a running node are good, and are left alone.
    func databases(spool: String?) -> [Finding] {
        guard kind == .directory, lock == .free else { return [] }
        var findings: [Finding] = []
        func look(at file: String, _ inspect: (String) throws -> Void) {
            guard access(file, F_OK) == 0 else { return }
            do {
                try inspect(file)
                findings.append(Finding(.state, file, .ok, "of a version that this one can read"))
            } catch {
                findings.append(Finding(.state, file, .failed, "\(error)"))
            }
        }
        look(at: "\(path)/standing.sqlite") { try StoreFile.inspect(.standing, at: $0) }
        if let spool { look(at: spool) { try StoreFile.inspect(.spool, at: $0) } }
        return findings
    }
}
