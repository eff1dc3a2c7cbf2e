import Cryptography
import Glibc

/// Files that the configuration names. Errors say what is wrong with the file, never what is in it.
enum ConfiguredFile {
    private static let largest = 1 << 20

    /// The bytes of a file that need not be secret.
    static func read(_ path: String, for key: String, of file: String) throws -> [UInt8] {
        try read(path, for: key, of: file, mustBePrivate: false)
    }

    /// The bytes of a file that only its owner may read.
    static func readSecret(_ path: String, for key: String, of file: String) throws -> [UInt8] {
        try read(path, for: key, of: file, mustBePrivate: true)
    }

    private static func read(_ path: String, for key: String, of file: String, mustBePrivate: Bool) throws -> [UInt8] {
        func problem(_ text: String) -> ConfigurationError {
            ConfigurationError(file: file, key: key, problem: text)
        }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw problem("cannot read \(path): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw problem("\(path) is not a file")
        }
        guard !mustBePrivate || status.st_mode & 0o077 == 0 else {
            throw problem("\(path) can be read by others than its owner; run: chmod 600 \(path)")
        }
        guard status.st_size <= largest else { throw problem("\(path) is larger than any credential") }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var length = 0
        while length < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress! + length, $0.count - length)
            }
            guard count > 0 else { break }
            length += count
        }
        bytes.removeLast(bytes.count - length)
        return bytes
    }
}
