// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Files of an onion service: written atomically, with mode 0600 by default. A file that root creates gets the owner of
/// its directory, so that the node's tor can read it.
enum OnionFile {
    static let privateMode: mode_t = 0o600
    private static let directoryMode: mode_t = 0o700

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Reads a file.
    /// - Parameters:
    ///   - limit: maximum size in bytes.
    ///   - mustBePrivate: rejects a file that users other than the owner can access.
    static func read(
        _ path: String, atMost limit: Int, mustBePrivate: Bool = false
    ) throws(OnionFileError) -> [UInt8] {
        do {
            return try RegularFile.read(path, atMost: limit, access: mustBePrivate ? .owner : .anyone)
        } catch {
            switch error {
            case .system(ENOENT): throw .missing(file: path)
            case .system(let number): throw .system(action: "read", path: path, errno: number)
            case .notRegular: throw .malformed(file: path, problem: "it is not a regular file")
            case .accessibleByOthers: throw .accessibleByOthers(file: path)
            case .tooLarge(let bytes):
                throw .malformed(file: path, problem: "it has \(bytes) bytes, more than the maximum of \(limit)")
            }
        }
    }

    /// Reads a file like ``read(_:atMost:mustBePrivate:)``, without line ends at its end.
    static func readLine(
        _ path: String, atMost limit: Int, mustBePrivate: Bool = false
    ) throws(OnionFileError) -> ArraySlice<UInt8> {
        var text = try read(path, atMost: limit, mustBePrivate: mustBePrivate)[...]
        while let last = text.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") { text.removeLast() }
        return text
    }

    /// Creates a file with these bytes and syncs it to disk.
    /// - Parameter mode: 0640 for a file without secrets, which the group may read.
    /// - Throws: ``OnionFileError/system(action:path:errno:)``, with `EEXIST` if the file exists.
    static func create(
        _ path: String, holding bytes: RawSpan, mode: mode_t = Self.privateMode
    ) throws(OnionFileError) {
        try write(path, bytes, mode: mode, replacing: false, isDurable: true)
    }

    /// Creates or replaces a file without syncing it to disk: not for content that must survive a power failure.
    static func replace(_ path: String, with bytes: RawSpan) throws(OnionFileError) {
        try write(path, bytes, mode: privateMode, replacing: true, isDurable: false)
    }

    /// Writes a file as a whole: tor may read the directory at any time.
    private static func write(
        _ path: String, _ bytes: RawSpan, mode: mode_t, replacing: Bool, isDurable: Bool
    ) throws(OnionFileError) {
        let error = DraftFile.write(
            bytes, to: path, mode: mode, owner: try owner(at: path), replacing: replacing, isDurable: isDurable)
        guard error == 0 else { throw .system(action: "create", path: path, errno: error) }
    }

    /// Removes a file and syncs its directory.
    static func remove(_ path: String) throws(OnionFileError) {
        guard unlink(path) == 0 else { throw .system(action: "remove", path: path, errno: errno) }
        try syncDirectory(of: path)
    }

    /// Creates a directory and its missing parents with mode 0700.
    static func makeDirectory(_ path: String) throws(OnionFileError) {
        if path.isEmpty || exists(path) { return try checkDirectory(path) }
        try makeDirectory(parent(of: path))
        guard mkdir(path, directoryMode) == 0 || errno == EEXIST else {
            throw .system(action: "create", path: path, errno: errno)
        }
        guard let owner = try owner(at: path) else { return }
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw .system(action: "read", path: path, errno: errno) }
        defer { close(descriptor) }
        guard fchown(descriptor, owner.user, owner.group) == 0 else {
            throw .system(action: "change the owner of", path: path, errno: errno)
        }
    }

    private static func checkDirectory(_ path: String) throws(OnionFileError) {
        var status = stat()
        guard stat(path.isEmpty ? "." : path, &status) == 0 else {
            throw .system(action: "read", path: path, errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .malformed(file: path, problem: "it is not a directory") }
    }

    /// The owner of the parent directory, who gets the files and directories that root creates; `nil` for other users.
    private static func owner(at path: String) throws(OnionFileError) -> (user: uid_t, group: gid_t)? {
        guard geteuid() == 0 else { return nil }
        var status = stat()
        guard stat(parent(of: path), &status) == 0 else {
            throw .system(action: "change the owner of", path: path, errno: errno)
        }
        return (status.st_uid, status.st_gid)
    }

    /// The directory of a file; `.` if the path names none.
    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func syncDirectory(of path: String) throws(OnionFileError) {
        guard PrivateFile.syncDirectory(of: path) else {
            throw .system(action: "write", path: parent(of: path), errno: errno)
        }
    }
}
