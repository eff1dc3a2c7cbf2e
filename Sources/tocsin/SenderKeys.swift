import Cryptography
import Glibc

/// The Ed25519 keys that `tocsin send` signs with: one for each phone, so that nobody learns from them that one sender
/// rings several. Each lies in a file that only its owner may read, made at the first notification to the phone.
struct SenderKeys {
    /// Made, with mode 0700, when it is needed.
    let directory: String

    private static let seedLength = 32
    /// Of the hash in a file's name.
    private static let nameLength = 16

    /// `$XDG_DATA_HOME/tocsin/senders`, or the same under `~/.local/share`; nil where there is neither.
    static func defaultDirectory(_ environment: [String: String]) -> String? {
        // The XDG specification has a relative path ignored.
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return "\(data)/tocsin/senders" }
        if let home = environment["HOME"], home.hasPrefix("/") { return "\(home)/.local/share/tocsin/senders" }
        return nil
    }

    /// The file that holds a phone's key, and does not tell which phone it is.
    func file(for deviceToken: String) -> String {
        // Apple's hexadecimal digits may be large or small: it is one phone.
        let isHex = deviceToken.utf8.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
        let token = isHex ? deviceToken.lowercased() : deviceToken
        let hash = BLAKE2b.hash256(Array("tocsin-sender".utf8) + Array(token.utf8))
        return "\(directory)/\(Hex.encode(hash.prefix(Self.nameLength))).key"
    }

    /// The key that rings this phone; a new one where there is none.
    /// - Throws: ``SenderKeyError``.
    func key(for deviceToken: String) throws(SenderKeyError) -> Ed25519.PrivateKey {
        let file = file(for: deviceToken)
        if let key = try Self.read(file) { return key }
        try make(file)
        // Read also where this process has made it: another one may have been faster.
        guard let key = try Self.read(file) else { throw .system("read", file, ENOENT) }
        return key
    }

    /// - Returns: nil where there is no such file.
    private static func read(_ file: String) throws(SenderKeyError) -> Ed25519.PrivateKey? {
        // Whoever opens a pipe waits for the other end, but not so.
        let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .system("read", file, errno)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system("read", file, errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .broken(file: file) }
        guard status.st_mode & 0o077 == 0 else { throw .readableByOthers(file: file) }
        // A line of hexadecimal, and a byte more to see that it ends.
        var text = [UInt8](repeating: 0, count: 2 * seedLength + 2)
        let count = Glibc.read(descriptor, &text, text.count)
        guard count >= 0 else { throw .system("read", file, errno) }
        text.removeLast(text.count - count)
        if text.last == UInt8(ascii: "\n") { text.removeLast() }
        guard let seed = Hex.decode(text), let key = Ed25519.PrivateKey(seed: seed) else { throw .broken(file: file) }
        return key
    }

    /// Makes a file with a new key where there is none. It gets its name when it is complete: whoever sees it, also
    /// after a crash, sees all of it.
    private func make(_ file: String) throws(SenderKeyError) {
        try makeDirectory()
        let draft = "\(file).\(Hex.encode(SecureRandom.bytes(8)))"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system("make", draft, errno) }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let text = Array("\(Hex.encode(SecureRandom.bytes(Self.seedLength)))\n".utf8)
        guard write(descriptor, text, text.count) == text.count, fsync(descriptor) == 0 else {
            throw .system("write", draft, errno)
        }
        guard link(draft, file) == 0 || errno == EEXIST else { throw .system("make", file, errno) }
        // A phone that is bound to a key that is gone after a power cut would be lost.
        let parent = open(directory, O_RDONLY | O_CLOEXEC)
        guard parent >= 0 else { throw .system("read", directory, errno) }
        defer { close(parent) }
        guard fsync(parent) == 0 else { throw .system("write", directory, errno) }
    }

    private func makeDirectory() throws(SenderKeyError) {
        for end in directory.indices.dropFirst() where directory[end] == "/" {
            // One that cannot be made is noticed at the last.
            mkdir(String(directory[..<end]), 0o700)
        }
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw .system("make", directory, errno) }
    }
}

/// Why a sender key cannot be used, and what to do. Holds nothing of the key.
enum SenderKeyError: Error, Equatable, CustomStringConvertible {
    /// Neither `XDG_DATA_HOME` nor `HOME` says where keys are kept.
    case noDirectory
    /// The operating system refuses: what was to be done, with which file, and its error number.
    case system(String, String, Int32)
    case readableByOthers(file: String)
    /// It does not hold 64 hexadecimal digits, or is no file.
    case broken(file: String)

    private static let otherwise = "name another directory with --keys, or send unsigned with --no-key"

    var description: String {
        switch self {
        case .noDirectory: "HOME is not set, so there is no place for sender keys; \(Self.otherwise)"
        case .system(let action, let path, let code):
            "cannot \(action) \(path): \(String(cString: strerror(code))); \(Self.otherwise)"
        case .readableByOthers(let file):
            "\(file) can be read by others than its owner, who could sign with it; run: chmod 600 \(file)"
        case .broken(let file):
            """
            \(file) does not hold a sender key, which is 64 hexadecimal digits: put it back from a backup. If there is \
            none, remove the file: a new key is made, but a phone that is bound to the old one has to be paired anew
            """
        }
    }
}
