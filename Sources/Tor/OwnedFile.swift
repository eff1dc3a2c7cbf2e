// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Files of an onion service: whole or not there at all, for their owner only, and owned by whoever owns the directory,
/// so that an operator who is root makes no file that the node's tor cannot read.
enum OwnedFile {
    private static let fileMode: mode_t = 0o600
    private static let directoryMode: mode_t = 0o700

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// The bytes of a file.
    /// - Parameters:
    ///   - limit: more bytes are no such file.
    ///   - mustBePrivate: refuses what others than its owner may read or write.
    static func read(
        _ path: String, atMost limit: Int, mustBePrivate: Bool = false
    ) throws(OnionFileError) -> [UInt8] {
        // Whoever opens a pipe waits for the other end, but not so.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? OnionFileError.missing(file: path) : .system("read", path, errno)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system("read", path, errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .broken(file: path, problem: "it is not a file") }
        guard !mustBePrivate || status.st_mode & 0o077 == 0 else { throw .readableByOthers(file: path) }
        guard status.st_size <= limit else {
            throw .broken(file: path, problem: "it has \(status.st_size) bytes, more than the \(limit) it may have")
        }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw .system("read", path, errno) }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// Makes a file that holds these bytes and is on disk with them.
    /// - Throws: ``OnionFileError/system(_:_:_:)``, with `EEXIST` where there is one.
    static func create(_ path: String, holding bytes: RawSpan) throws(OnionFileError) {
        try draft(path, holding: bytes, isKept: true, name: link)
    }

    /// Makes a file that holds these bytes, in the place of one that is there. Not for what must outlive a power cut: the
    /// disk is not waited for.
    static func replace(_ path: String, with bytes: RawSpan) throws(OnionFileError) {
        try draft(path, holding: bytes, isKept: false, name: rename)
    }

    /// The file gets its name when it is complete: tor reads such a directory at any time.
    private static func draft(
        _ path: String, holding bytes: RawSpan, isKept: Bool,
        name: (UnsafePointer<CChar>, UnsafePointer<CChar>) -> Int32
    ) throws(OnionFileError) {
        // The number keeps two of us apart.
        let draft = "\(path).draft\(getpid())"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, fileMode)
        guard descriptor >= 0 else { throw .system("make", draft, errno) }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let isWritten = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) == $0.count }
        guard isWritten, fchmod(descriptor, fileMode) == 0, !isKept || fsync(descriptor) == 0 else {
            throw .system("write", path, errno)
        }
        try giveAway(descriptor, at: path)
        guard name(draft, path) == 0 else { throw .system("make", path, errno) }
        if isKept { try sync(parent(of: path)) }
    }

    /// Removes a file, also from disk.
    static func remove(_ path: String) throws(OnionFileError) {
        guard unlink(path) == 0 else { throw .system("remove", path, errno) }
        try sync(parent(of: path))
    }

    /// Makes a directory, and those above it, with mode 0700 where they are not there.
    static func makeDirectory(_ path: String) throws(OnionFileError) {
        if path.isEmpty || exists(path) { return try checkDirectory(path) }
        try makeDirectory(parent(of: path))
        guard mkdir(path, directoryMode) == 0 || errno == EEXIST else { throw .system("make", path, errno) }
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("read", path, errno) }
        defer { close(descriptor) }
        try giveAway(descriptor, at: path)
    }

    private static func checkDirectory(_ path: String) throws(OnionFileError) {
        var status = stat()
        guard stat(path.isEmpty ? "." : path, &status) == 0 else { throw .system("read", path, errno) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .broken(file: path, problem: "it is not a directory") }
    }

    /// What root makes belongs to the owner of the directory that it is in.
    private static func giveAway(_ descriptor: Int32, at path: String) throws(OnionFileError) {
        guard geteuid() == 0 else { return }
        var status = stat()
        guard stat(parent(of: path), &status) == 0, fchown(descriptor, status.st_uid, status.st_gid) == 0 else {
            throw .system("give to its directory's owner", path, errno)
        }
    }

    private static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// A new name, or an old one that is gone, is on disk only when its directory is.
    private static func sync(_ directory: String) throws(OnionFileError) {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("read", directory, errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .system("write", directory, errno) }
    }
}
