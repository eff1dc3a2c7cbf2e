import Cryptography
import Glibc

/// The file that holds the spool's key: as many random bytes as a key has, and nothing else.
enum SpoolKeyFile {
    /// Reads the key of an empty spool, or makes one where there is none.
    static func readOrMake(_ path: String, of spool: String) throws(SpoolError) -> SpoolKey {
        do {
            return try read(path, of: spool)
        } catch {
            guard case .keyMissing = error else { throw error }
            var bytes = SecureRandom.bytes(SpoolKey.length)
            try PrivateFile.create(path, holding: bytes)
            return try key(moving: &bytes, of: path)
        }
    }

    /// Reads the key.
    static func read(_ path: String, of spool: String) throws(SpoolError) -> SpoolKey {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? SpoolError.keyMissing(file: path, spool: spool) : .system(path)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .unusable(file: path, reason: "it is not a file") }
        guard status.st_mode & 0o077 == 0 else { throw .keyReadableByOthers(file: path) }
        guard status.st_size == SpoolKey.length else { throw .keyLength(file: path, bytes: Int(status.st_size)) }
        var bytes = [UInt8](repeating: 0, count: SpoolKey.length)
        guard Glibc.read(descriptor, &bytes, bytes.count) == bytes.count else { throw .system(path) }
        return try key(moving: &bytes, of: path)
    }

    private static func key(moving bytes: inout [UInt8], of path: String) throws(SpoolError) -> SpoolKey {
        let count = bytes.count
        guard let key = SpoolKey(SecretBytes(moving: &bytes)) else { throw .keyLength(file: path, bytes: count) }
        return key
    }
}
