// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// A node's state in one sealed file, to move the node to another machine: what it knows of phones, its keys, the keys
/// of its onions, Apple's provider tokens, and the spool. The configuration and the credentials are not part of it.
///
/// The plain text is `length u16 of path ‖ path ‖ size u64 ‖ content` for each file, then a length of 0. It is sealed in
/// chunks, each preceded by its length (u32) in the archive.
package enum StateArchive {
    /// Why a state could not be exported or imported, and what to do.
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// What was exported or imported.
    package struct Summary: Equatable {
        /// Number of files.
        package var files = 0
        /// Their size in bytes.
        package var bytes = 0
    }

    private static let tor = "tor"
    private static let spool = "spool."
    private static let part = "import.part"

    // MARK: Export

    /// Writes the state to `output`.
    /// - Parameters:
    ///   - onions: the directories of the onions, from ``onions(in:)``.
    ///   - progress: called with the path of each file.
    /// - Throws: ``Failure``, also while a node uses the state.
    package static func export(
        _ state: String, _ onions: [OnionFile], to output: Int32, passphrase: [UInt8],
        progress: (String) -> Void = { _ in }
    ) throws(Failure) -> Summary {
        guard access(state, R_OK | X_OK) == 0 else { throw system("read", state) }
        let lock = try lock(state, "stop it first")
        defer { withExtendedLifetime(lock) {} }
        var summary = Summary()
        let writer = try Sink.writer(passphrase)
        try write(writer.header, to: output, of: "the archive")
        var sink = Sink(output, writer)
        for path in try files(of: state) {
            progress(path)
            let descriptor = open("\(state)/\(path)", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
            guard descriptor >= 0 else { throw system("read", "\(state)/\(path)") }
            defer { close(descriptor) }
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw system("read", "\(state)/\(path)") }
            try sink.write(bigEndian(UInt16(path.utf8.count)) + Array(path.utf8) + bigEndian(UInt64(status.st_size)))
            var left = Int(status.st_size)
            while left > 0 {
                let bytes = try read(descriptor, atMost: min(left, SealedStream.maximumChunk), of: path)
                guard !bytes.isEmpty else { throw Failure(description: "\(state)/\(path) became shorter meanwhile") }
                try sink.write(bytes)
                left -= bytes.count
            }
            summary.files += 1
            summary.bytes += Int(status.st_size)
        }
        for file in onions {
            let path = "\(tor)/\(file.path)"
            progress(path)
            try sink.write(bigEndian(UInt16(path.utf8.count)) + Array(path.utf8))
            try sink.write(bigEndian(UInt64(file.bytes.count)) + file.bytes)
            summary.files += 1
            summary.bytes += file.bytes.count
        }
        try sink.finish(with: bigEndian(UInt16(0)))
        guard fsync(output) == 0 || errno == EINVAL else { throw system("write", "the archive") }
        return summary
    }

    /// The node's own files in its state directory.
    private static func files(of state: String) throws(Failure) -> [String] {
        try names(in: state).filter { isAllowed($0) && isFile("\(state)/\($0)") }
    }

    // MARK: Onions

    /// A file of an onion, perhaps its secret key.
    package struct OnionFile: Redacted {
        /// Its path in tor's directory: `onion/hostname`.
        let path: String
        let bytes: [UInt8]
    }

    /// The size in bytes above which a file is none of tor's.
    private static let maximumOnionFile = 65_536

    /// Reads the directories of all onions in tor's data directory, which may belong to another user than the state; none if
    /// there is no such directory.
    /// - Throws: ``Failure``.
    package static func onions(in directory: String) throws(Failure) -> [OnionFile] {
        var files: [OnionFile] = []
        for path in try onionPaths(in: directory) {
            let file = "\(directory)/\(path)"
            let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
            guard descriptor >= 0 else { throw system("read", file) }
            defer { close(descriptor) }
            let bytes = try read(descriptor, atMost: maximumOnionFile + 1, of: file)
            guard bytes.count <= maximumOnionFile else { throw Failure(description: "\(file) is not a file of tor") }
            files.append(OnionFile(path: path, bytes: bytes))
        }
        return files
    }

    /// Writes the directories of onions into tor's data directory, durably.
    /// - Throws: ``Failure``, also if a file exists.
    package static func write(_ onions: [OnionFile], to directory: String) throws(Failure) {
        for file in onions {
            let descriptor = try create("\(directory)/\(file.path)")
            defer { close(descriptor) }
            try write(file.bytes, to: descriptor, of: file.path)
            // The node lists the authorised senders, and may run as another user than tor.
            if file.path.contains("/authorized_clients/"), fchmod(descriptor, 0o640) != 0 {
                throw system("set the mode of", file.path)
            }
            // The caller may delete its own copy afterwards.
            guard fsync(descriptor) == 0, PrivateFile.syncDirectory(of: "\(directory)/\(file.path)") else {
                throw system("write", "\(directory)/\(file.path)")
            }
        }
        for onion in try onionDirectories(in: directory) {
            guard PrivateFile.syncDirectory(of: "\(directory)/\(onion)") else { throw system("write", directory) }
        }
    }

    /// Removes the directories of all onions in tor's data directory.
    /// - Throws: ``Failure``.
    package static func removeOnions(in directory: String) throws(Failure) {
        for onion in try onionDirectories(in: directory) { remove("\(directory)/\(onion)") }
    }

    private static func onionDirectories(in directory: String) throws(Failure) -> [String] {
        try names(in: directory).filter { $0 == "onion" || $0.hasPrefix("onion-") }
    }

    private static func onionPaths(in directory: String) throws(Failure) -> [String] {
        var paths: [String] = []
        for onion in try onionDirectories(in: directory) {
            for place in [onion, "\(onion)/authorized_clients"] {
                for path in try names(in: "\(directory)/\(place)").map({ "\(place)/\($0)" })
                where isFile("\(directory)/\(path)") {
                    if isAllowed("\(tor)/\(path)") {
                        paths.append(path)
                    } else if path.hasSuffix(".auth") {
                        // Without its authorised senders, an onion may be open.
                        throw Failure(
                            description:
                                "\(directory)/\(path) authorises a sender of a closed onion: rename it, with letters, "
                                + "digits, dots, underscores and hyphens only")
                    }
                }
            }
        }
        return paths
    }

    // MARK: Import

    /// Reads an archive into an empty state directory, which is created if it does not exist. Imports nothing if it
    /// throws, unless moving the files to their places fails.
    /// - Parameter hasSpool: whether to import the spool, if there is one.
    /// - Throws: ``Failure``.
    package static func restore(
        from input: Int32, to state: String, passphrase: [UInt8], hasSpool: Bool = true,
        progress: (String) -> Void = { _ in }
    ) throws(Failure) -> Summary {
        guard mkdir(state, 0o700) == 0 || errno == EEXIST else { throw system("create", state) }
        let lock = try lock(state, "stop it, and choose an empty node.state")
        defer { withExtendedLifetime(lock) {} }
        let draft = "\(state)/\(part)"
        remove(draft)
        let present = try files(of: state) + onionPaths(in: "\(state)/\(tor)").map { "\(tor)/\($0)" }
        guard present.isEmpty else {
            throw Failure(
                description:
                    "\(state) already holds a node's state (\(present[0])): choose another node.state, or move it away")
        }
        var summary = Summary()
        do throws(Failure) {
            var source = Source(input, try Source.reader(input, passphrase))
            while case .file(let path, let size) = try source.next() {
                progress(path)
                let isWanted = hasSpool || !path.hasPrefix(spool)
                let file = isWanted ? try create("\(draft)/\(path)") : -1
                defer { if file >= 0 { close(file) } }
                var left = size
                while left > 0, case .content(let bytes) = try source.next() {
                    if isWanted { try write(Array(bytes), to: file, of: "\(state)/\(path)") }
                    left -= UInt64(bytes.count)
                }
                guard isWanted else { continue }
                guard fsync(file) == 0 else { throw system("write", "\(state)/\(path)") }
                summary.files += 1
                summary.bytes += Int(size)
            }
            try source.finish()
            try move(draft, to: state)
        } catch {
            remove(draft)
            throw error
        }
        remove(draft)
        return summary
    }

    /// Whether a file is part of a state, by its path in the state directory. Files that an editor or the operator
    /// left there are not, nor are the `-shm` files, which SQLite makes again.
    static func isAllowed(_ path: String) -> Bool {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = parts.allSatisfy { part in
            !part.isEmpty && part.first != "."
                && part.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
        }
        guard isPlain else { return false }
        if parts.count == 1 { return path != "lock" && path != part && path != tor && !path.hasSuffix("-shm") }
        let isOnion = parts[0] == tor && (parts[1] == "onion" || parts[1].hasPrefix("onion-"))
        return isOnion && (parts.count == 3 || (parts.count == 4 && parts[2] == "authorized_clients"))
    }

    /// Moves the files of a complete draft into place.
    private static func move(_ draft: String, to state: String) throws(Failure) {
        // The keys of the onions come first: a node with the databases alone would make new onions.
        if access("\(draft)/\(tor)", F_OK) == 0 {
            guard mkdir("\(state)/\(tor)", 0o700) == 0 || errno == EEXIST else {
                throw system("create", "\(state)/\(tor)")
            }
            for onion in try names(in: "\(draft)/\(tor)") {
                guard rename("\(draft)/\(tor)/\(onion)", "\(state)/\(tor)/\(onion)") == 0 else {
                    throw system("write", "\(state)/\(tor)/\(onion)")
                }
            }
        }
        for name in try names(in: draft) where name != tor {
            guard rename("\(draft)/\(name)", "\(state)/\(name)") == 0 else { throw system("write", "\(state)/\(name)") }
        }
        guard PrivateFile.syncDirectory(of: "\(state)/lock") else { throw system("write", state) }
    }

    // MARK: Files

    private static func lock(_ state: String, _ advice: String) throws(Failure) -> FileLock {
        do {
            return try FileLock(at: "\(state)/lock", for: state)
        } catch .inUse(_, let pid) {
            throw Failure(
                description: "a node is running with \(state)\(pid.map { " (process \($0))" } ?? ""): \(advice)")
        } catch {
            throw Failure(description: error.description)
        }
    }

    private static func isFile(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    /// The names in a directory, sorted, without those that begin with a dot; none if there is no directory.
    private static func names(in directory: String) throws(Failure) -> [String] {
        guard let stream = opendir(directory) else {
            if errno == ENOENT { return [] }
            throw system("read", directory)
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names.sorted()
    }

    /// Creates a private file, and the directories above it.
    private static func create(_ path: String) throws(Failure) -> Int32 {
        var position = path.startIndex
        while let slash = path[position...].dropFirst().firstIndex(of: "/") {
            let directory = String(path[..<slash])
            guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw system("create", directory) }
            position = slash
        }
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw system("create", path) }
        return file
    }

    private static func remove(_ directory: String) {
        for name in (try? names(in: directory)) ?? [] {
            let path = "\(directory)/\(name)"
            if isFile(path) { unlink(path) } else { remove(path) }
        }
        rmdir(directory)
    }

    private static func read(_ descriptor: Int32, atMost count: Int, of path: String) throws(Failure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = Glibc.read(descriptor, &bytes, count)
        guard done >= 0 else { throw system("read", path) }
        bytes.removeSubrange(done...)
        return bytes
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32, of path: String) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let done = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard done > 0 else { throw system("write", path) }
            rest = rest.dropFirst(done)
        }
    }

    private static func system(_ action: String, _ path: String) -> Failure {
        Failure(description: "cannot \(action) \(path): \(String(cString: strerror(errno)))")
    }

    private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    // MARK: The sealed stream

    /// Seals what is written, in chunks.
    private struct Sink: ~Copyable {
        private let output: Int32
        private var writer: SealedStream.Writer
        private var buffer: [UInt8] = []

        init(_ output: Int32, _ writer: consuming SealedStream.Writer) {
            self.output = output
            self.writer = writer
        }

        /// Begins a stream.
        static func writer(_ passphrase: [UInt8]) throws(Failure) -> SealedStream.Writer {
            do {
                return try SealedStream.Writer(passphrase: passphrase)
            } catch {
                throw Failure(description: "not enough memory to make a key of the passphrase")
            }
        }

        mutating func write(_ bytes: [UInt8]) throws(Failure) {
            buffer += bytes
            while buffer.count > SealedStream.maximumChunk {
                try put(Array(buffer.prefix(SealedStream.maximumChunk)), isLast: false)
                buffer.removeFirst(SealedStream.maximumChunk)
            }
        }

        mutating func finish(with bytes: [UInt8]) throws(Failure) {
            try write(bytes)
            try put(buffer, isLast: true)
        }

        private mutating func put(_ chunk: [UInt8], isLast: Bool) throws(Failure) {
            let sealed = writer.seal(chunk, isLast: isLast)
            try StateArchive.write(bigEndian(UInt32(sealed.count)) + sealed, to: output, of: "the archive")
        }
    }

    /// Opens the chunks of an archive.
    private struct Source: ~Copyable {
        private let input: Int32
        private var reader: SealedStream.Reader
        private var decoder = ArchiveDecoder()
        private var isAtEnd = false

        private static let damaged = Failure(
            description: "the passphrase is wrong, or the archive is damaged; nothing was imported")
        private static let short = Failure(description: "the archive is cut short; nothing was imported")

        init(_ input: Int32, _ reader: consuming SealedStream.Reader) {
            self.input = input
            self.reader = reader
        }

        /// Reads the header of a stream.
        static func reader(_ input: Int32, _ passphrase: [UInt8]) throws(Failure) -> SealedStream.Reader {
            let header = try take(SealedStream.headerLength, from: input)
            do {
                return try SealedStream.Reader(header: header, passphrase: passphrase)
            } catch {
                throw switch error {
                case .notSealedStream:
                    Failure(description: "this is not an archive of tocsin state export, or it is cut short")
                case .newerVersion(let version):
                    Failure(
                        description:
                            "a newer version of Tocsin made this archive (format \(version)): install that version here"
                    )
                case .wrongPassphraseOrDamaged: damaged
                case .memory: Failure(description: "not enough memory to make the key of the passphrase")
                }
            }
        }

        /// Reads this many bytes, or fewer at the end of the file.
        private static func take(_ count: Int, from input: Int32) throws(Failure) -> [UInt8] {
            var bytes: [UInt8] = []
            while bytes.count < count {
                let more = try StateArchive.read(input, atMost: count - bytes.count, of: "the archive")
                if more.isEmpty { break }
                bytes += more
            }
            return bytes
        }

        private mutating func fill() throws(Failure) {
            guard !isAtEnd else { throw Self.damaged }
            let length = try Self.take(4, from: input)
            guard length.count == 4 else { throw Self.short }
            let count = length.reduce(0) { $0 << 8 | Int($1) }
            guard count <= SealedStream.maximumChunk + SealedStream.overhead else { throw Self.damaged }
            let sealed = try Self.take(count, from: input)
            guard sealed.count == count else { throw Self.short }
            do {
                let (chunk, isLast) = try reader.open(sealed)
                isAtEnd = isLast
                decoder.append(chunk)
            } catch {
                throw Self.damaged
            }
        }

        /// Reads the next part of the archive.
        mutating func next() throws(Failure) -> ArchiveDecoder.Event {
            do {
                while true {
                    if let event = try decoder.next() { return event }
                    try fill()
                }
            } catch let failure as Failure {
                throw failure
            } catch {
                throw Failure(description: "the archive has an unexpected file")
            }
        }

        /// Checks that nothing follows.
        func finish() throws(Failure) {
            guard isAtEnd, decoder.isEmpty else { throw Self.damaged }
        }
    }
}
