// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The clients that an onion is open to: `authorized_clients` in its `HiddenServiceDir`. While there is one, nobody else
/// can even find out where the onion is; without any it is open to all who know its address. tor reads the files when it
/// starts and at SIGHUP.
package struct AuthorizedClients: Sendable {
    /// One file of the directory.
    package struct Entry: Equatable, Sendable {
        /// The name.
        package let name: ClientName
        /// Whether tor can read it; what it cannot read authorises nobody.
        package let isValid: Bool
    }

    /// How many fit: the descriptor has a line of some 70 bytes for each, and 50,000 bytes in all.
    package static let limit = 256
    /// Files looked at.
    private static let mostFiles = 10_000
    private static let longestFile = 1024
    private static let suffix = ".auth"

    /// The directory.
    package let directory: String

    /// - Parameter serviceDirectory: what tor calls `HiddenServiceDir`.
    package init(serviceDirectory: String) { directory = "\(serviceDirectory)/authorized_clients" }

    private func file(of name: ClientName) -> String { "\(directory)/\(name)\(Self.suffix)" }

    /// All of them by name.
    /// - Throws: ``OnionFileError``; also where a file's name is no ``ClientName``.
    package func list() throws(OnionFileError) -> [Entry] {
        try names().map { name in Entry(name: name, isValid: publicKey(of: name) != nil) }
    }

    /// Authorises a client.
    /// - Throws: ``OnionFileError``.
    package func install(_ publicKey: [UInt8], as name: ClientName) throws(OnionFileError) {
        guard try names().count < Self.limit else { throw .tooManyClients(limit: Self.limit) }
        try OwnedFile.makeDirectory(directory)
        do {
            try OwnedFile.create(file(of: name), holding: ClientAuthorization.serviceFile(of: publicKey).span.bytes)
        } catch .system(_, _, EEXIST) {
            throw .clientExists(name)
        }
    }

    /// Takes a client's authorisation back.
    /// - Parameter opensToAll: whether the last one may go, which opens the onion to everybody.
    /// - Throws: ``OnionFileError``.
    package func revoke(_ name: ClientName, opensToAll: Bool = false) throws(OnionFileError) {
        let entries = try list()
        guard entries.contains(where: { $0.name == name }) else {
            throw .noSuchClient(name, directory: directory)
        }
        let isNeeded = entries.contains { $0.name == name && $0.isValid }
        let others = entries.contains { $0.name != name && $0.isValid }
        guard opensToAll || others || !isNeeded else { throw .lastClient(name) }
        try OwnedFile.remove(file(of: name))
    }

    /// Authorises all clients of another service, whose keys go with its clients: a closed onion stays closed.
    /// - Returns: how many there were.
    /// - Throws: ``OnionFileError``; also for a file that cannot be read, since leaving it out could open the onion.
    package func takeOver(from other: AuthorizedClients) throws(OnionFileError) -> Int {
        let present = try list()
        let names = try other.names()
        for name in names {
            guard let key = other.publicKey(of: name) else {
                throw .broken(file: other.file(of: name), problem: "it does not hold a line descriptor:x25519:KEY")
            }
            if present.contains(where: { $0.name == name }) {
                guard publicKey(of: name) == key else { throw .clientExists(name) }
            } else {
                try install(key, as: name)
            }
        }
        return names.count
    }

    private func publicKey(of name: ClientName) -> [UInt8]? {
        guard var text = try? OwnedFile.read(file(of: name), atMost: Self.longestFile) else { return nil }
        while let last = text.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") { text.removeLast() }
        return ClientAuthorization.publicKey(inServiceLine: text)
    }

    private func names() throws(OnionFileError) -> [ClientName] {
        guard let stream = opendir(directory) else {
            if errno == ENOENT { return [] }
            throw .system("read", directory, errno)
        }
        defer { closedir(stream) }
        var names: [ClientName] = []
        for _ in 0..<Self.mostFiles {
            guard let entry = readdir(stream) else { break }
            let file = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard file.hasSuffix(Self.suffix) else { continue }
            guard let name = try? ClientName(String(file.dropLast(Self.suffix.count))) else {
                // tor lets this client in: leaving it out would not be the truth.
                throw .broken(
                    file: "\(directory)/\(file)".debugDescription,
                    problem: "a name must be 1 to 64 letters, digits, - and _, and then .auth; rename it")
            }
            names.append(name)
        }
        return names.sorted()
    }
}
