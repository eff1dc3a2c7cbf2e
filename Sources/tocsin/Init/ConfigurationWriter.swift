// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import Glibc
import NodeConfiguration
import TocsinNode

/// Puts a new configuration on disk, with its state directory.
struct ConfigurationWriter {
    /// Where the configuration goes.
    let directory: String
    /// Whether what is there may be replaced.
    let replacing: Bool

    /// Why it could not: what, where, and what to do.
    struct Failure: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    // No secret is in it, and whoever belongs to its directory's group, as the node in Debian's package, reads it.
    private static let mode: mode_t = 0o640
    private static let largestSecret = 1 << 20

    var file: String { "\(directory)/tocsin.toml" }

    /// - Throws: ``Failure``, where something is in the way.
    func check() throws(Failure) {
        var status = stat()
        guard stat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw Failure(description: "there is no directory \(directory): make it, or name another one: --directory")
        }
        guard lstat(file, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Failure(description: "\(file) is there already, and is not a file: name another --directory")
        }
        guard replacing else {
            throw Failure(
                description: "\(file) is there already: name another --directory, or overwrite it with --force")
        }
    }

    /// Copies files with secrets beside the configuration, for the node's user only.
    /// - Returns: the configuration with their new names.
    /// - Throws: ``Failure``, `SecretFile.Failure`, `PrivateFileError`.
    func copySecrets(of configuration: NewConfiguration) throws -> NewConfiguration {
        var names: Set<String> = ["tocsin.toml"]
        _ = try configuration.renamingSecrets { source in
            let name = Self.name(of: source)
            guard names.insert(name).inserted else {
                throw Failure(description: "two files would both be copied to \(directory)/\(name): rename one of them")
            }
            return source
        }
        return try configuration.renamingSecrets { source in
            let name = Self.name(of: source)
            let target = "\(directory)/\(name)"
            var (from, to) = (stat(), stat())
            let isSame =
                stat(source, &from) == 0 && stat(target, &to) == 0 && from.st_ino == to.st_ino
                && from.st_dev == to.st_dev
            if isSame { return name }
            try SecretFile.write(try Self.secret(source), to: target, replacing: replacing)
            giveToNode(target, state: configuration.state)
            return name
        }
    }

    private static func name(of path: String) -> String { String(path.split(separator: "/").last ?? "secret") }

    private static func secret(_ path: String) throws(Failure) -> [UInt8] {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw Failure(description: "cannot read \(path): \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= largestSecret,
            let bytes = try? Data(contentsOf: URL(filePath: path))
        else { throw Failure(description: "\(path) is no credential, or cannot be read") }
        return Array(bytes)
    }

    /// What root copies belongs to whoever owns the state directory, and so runs the node.
    private func giveToNode(_ path: String, state: String) {
        var status = stat()
        if geteuid() == 0, stat(absolute(state), &status) == 0 { _ = chown(path, status.st_uid, status.st_gid) }
    }

    /// A path of the configuration: relative ones are relative to its directory.
    func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : "\(directory)/\(path)" }

    /// Writes the configuration, whole or not at all, after ``prepare(for:)``.
    /// - Throws: ``Failure``, or `ConfigurationError` where the node would not read it; then nothing is written.
    func write(_ configuration: NewConfiguration) throws {
        let text = configuration.text
        _ = try Configuration(text: text, file: file)
        try check()
        let draft = "\(file).draft\(getpid())"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, Self.mode)
        guard descriptor >= 0 else { throw Self.system("write", draft) }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fchmod(descriptor, Self.mode) == 0,
            fsync(descriptor) == 0
        else { throw Self.system("write", file) }
        var status = stat()
        if geteuid() == 0, stat(directory, &status) == 0 { _ = fchown(descriptor, status.st_uid, status.st_gid) }
        // A link takes no other file's place, should one have come meanwhile.
        guard (replacing ? rename(draft, file) : link(draft, file)) == 0 else { throw Self.system("write", file) }
    }

    /// Makes what the configuration itself is the last of: looks whether the node would read it, and makes the state
    /// directory where there is none.
    /// - Throws: ``Failure``, or `ConfigurationError`; then nothing is written.
    func prepare(for configuration: NewConfiguration) throws {
        let read = try Configuration(text: configuration.text, file: file)
        try check()
        guard mkdir(read.state, 0o700) == 0 || errno == EEXIST else { throw Self.system("make", read.state) }
    }

    private static func system(_ action: String, _ path: String) -> Failure {
        Failure(description: "cannot \(action) \(path): \(String(cString: strerror(errno)))")
    }
}
