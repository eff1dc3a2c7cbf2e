// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import NodeConfiguration
import Settings

/// Writes a new configuration to disk, and creates its state directory.
struct ConfigurationWriter {
    /// The directory of the configuration.
    let directory: String
    /// Whether existing files may be replaced.
    let replacing: Bool

    /// What went wrong, where, and what to do.
    struct Failure: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    // The file contains no secret. It gets the directory's group: the Debian package's node reads it as a member of
    // that group.
    private static let mode: mode_t = 0o640
    private static let maximumSecret = 1 << 20

    /// The path of the configuration.
    var file: String { "\(directory)/tocsin.toml" }

    /// Checks that the configuration can be written.
    /// - Throws: ``Failure`` if the directory is missing, or if the file exists and may not be replaced.
    func check() throws(Failure) {
        var status = stat()
        guard stat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw Failure(description: "there is no directory \(directory): create it, or choose another --directory")
        }
        guard lstat(file, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Failure(description: "\(file) exists and is not a regular file: choose another --directory")
        }
        guard replacing else {
            throw Failure(description: "\(file) exists: choose another --directory, or overwrite it with --force")
        }
    }

    /// Copies the files with secrets into the directory of the configuration, with mode 600; if root copies them, the
    /// node's user becomes their owner.
    /// - Returns: the configuration with their new names.
    /// - Throws: ``Failure``, `SecretFile.Failure`, `PrivateFileError`.
    func copySecrets(of configuration: NewConfiguration) throws -> NewConfiguration {
        var names: Set<String> = ["tocsin.toml"]
        _ = try configuration.renamingSecrets { source in
            let name = Self.name(of: source)
            guard names.insert(name).inserted else {
                throw Failure(description: "two files would be copied to \(directory)/\(name): rename one of them")
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
        do throws(RegularFile.Failure) {
            return try RegularFile.read(path, atMost: maximumSecret)
        } catch .system(let number) {
            throw Failure(description: "cannot read \(path): \(String(cString: strerror(number)))")
        } catch {
            throw Failure(description: "\(path) is not a credential file: check the path")
        }
    }

    /// If root copied the file, gives it to the owner of the state directory: the node runs as that user.
    private func giveToNode(_ path: String, state: String) {
        var status = stat()
        if geteuid() == 0, stat(absolute(state), &status) == 0 { _ = chown(path, status.st_uid, status.st_gid) }
    }

    /// The absolute form of a path in the configuration, which may be relative to its directory.
    func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : "\(directory)/\(path)" }

    /// Writes the configuration atomically. Call ``prepare(for:)`` first.
    /// - Throws: ``Failure``, or `ConfigurationError` if the node would reject it. In both cases, nothing is written.
    func write(_ configuration: NewConfiguration) throws {
        let text = configuration.text
        _ = try Configuration(text: text, file: file)
        try check()
        var status = stat()
        let owner = stat(directory, &status) == 0 ? (status.st_uid, status.st_gid) : nil
        let error = DraftFile.write(
            Array(text.utf8).span.bytes, to: file, mode: Self.mode, owner: owner, replacing: replacing, isDurable: true)
        guard error == 0 else {
            errno = error
            throw Self.system("write", file)
        }
    }

    /// Prepares for writing the configuration: checks that the node would accept it, and creates the state directory if
    /// it is missing.
    /// - Throws: ``Failure``, or `ConfigurationError`. In both cases, nothing is written.
    func prepare(for configuration: NewConfiguration) throws {
        let read = try Configuration(text: configuration.text, file: file)
        try check()
        guard mkdir(read.state, 0o700) == 0 || errno == EEXIST else { throw Self.system("create", read.state) }
    }

    private static func system(_ action: String, _ path: String) -> Failure {
        Failure(description: "cannot \(action) \(path): \(String(cString: strerror(errno)))")
    }
}
