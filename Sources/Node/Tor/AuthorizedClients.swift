// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The client authorisation files of an onion service: `authorized_clients` in its `HiddenServiceDir`. With at least
/// one valid file, only the clients with a valid file can decrypt the descriptor; with none, the onion is open to every
/// client that knows its address. tor reads the files at startup and on SIGHUP.
package struct AuthorizedClients: Sendable {
    /// A client authorisation file.
    package struct Entry: Equatable, Sendable {
        /// The client's name, from the file name.
        package let name: ClientName
        /// Whether tor can parse the file; an unparsable file authorises no client.
        package let isValid: Bool
    }

    /// Maximum number of clients: each takes a line of about 70 bytes in the descriptor, which has at most 50,000
    /// bytes.
    package static let maximumClients = 256
    /// Maximum number of directory entries read.
    private static let maximumFiles = 10_000
    private static let maximumFile = 1024
    private static let suffix = ".auth"

    /// The path of `authorized_clients`.
    package let directory: String

    /// Refers to the client authorisation files of a service.
    /// - Parameter serviceDirectory: the service's `HiddenServiceDir`.
    package init(serviceDirectory: String) { directory = "\(serviceDirectory)/authorized_clients" }

    private func file(of name: ClientName) -> String { "\(directory)/\(name)\(Self.suffix)" }

    /// Returns all entries, sorted by name.
    /// - Throws: ``OnionFileError``, also if the name of a file is not a valid ``ClientName``.
    package func list() throws(OnionFileError) -> [Entry] {
        var entries: [Entry] = []
        for name in try names() { entries.append(Entry(name: name, isValid: try publicKey(of: name) != nil)) }
        return entries
    }

    /// Authorises a client.
    /// - Throws: ``OnionFileError``.
    package func authorize(_ publicKey: [UInt8], as name: ClientName) throws(OnionFileError) {
        guard try names().count < Self.maximumClients else { throw .tooManyClients(limit: Self.maximumClients) }
        try OnionFile.makeDirectory(directory)
        do {
            let line = ClientAuthorization.serviceFile(of: publicKey)
            try OnionFile.create(file(of: name), holding: line.span.bytes, mode: 0o640)
        } catch .system(_, _, EEXIST) {
            throw .clientExists(name)
        }
    }

    /// Revokes a client's authorisation.
    /// - Parameter opensToAll: whether the last client may be revoked, which opens the onion to every client.
    /// - Throws: ``OnionFileError``.
    package func revoke(_ name: ClientName, opensToAll: Bool = false) throws(OnionFileError) {
        let entries = try list()
        guard entries.contains(where: { $0.name == name }) else { throw .noSuchClient(name, directory: directory) }
        let isNeeded = entries.contains { $0.name == name && $0.isValid }
        let others = entries.contains { $0.name != name && $0.isValid }
        guard opensToAll || others || !isNeeded else { throw .lastClient(name) }
        try OnionFile.remove(file(of: name))
    }

    /// The public keys of all clients, by their names.
    /// - Throws: ``OnionFileError``, also for a file that cannot be parsed: leaving it out could open an onion.
    package func keys() throws(OnionFileError) -> [(name: ClientName, publicKey: [UInt8])] {
        var keys: [(ClientName, [UInt8])] = []
        for name in try names() {
            guard let key = try publicKey(of: name) else {
                throw .malformed(file: file(of: name), problem: "it does not contain a line descriptor:x25519:KEY")
            }
            keys.append((name, key))
        }
        return keys
    }

    /// Authorises clients of another service whose keys are being imported, so that a closed onion stays closed.
    /// - Throws: ``OnionFileError``, also if another key has the name of one of them.
    package func add(_ others: [(name: ClientName, publicKey: [UInt8])]) throws(OnionFileError) {
        let present = try names()
        for (name, key) in others {
            if present.contains(name) {
                guard try publicKey(of: name) == key else { throw .clientExists(name) }
            } else {
                try authorize(key, as: name)
            }
        }
    }

    /// The key in a client's file; `nil` if tor cannot parse it.
    private func publicKey(of name: ClientName) throws(OnionFileError) -> [UInt8]? {
        do {
            return ClientAuthorization.key(inLine: try OnionFile.readLine(file(of: name), atMost: Self.maximumFile))
        } catch .malformed {
            return nil
        }
    }

    private func names() throws(OnionFileError) -> [ClientName] {
        guard let stream = opendir(directory) else {
            if errno == ENOENT { return [] }
            throw .system(action: "read", path: directory, errno: errno)
        }
        defer { closedir(stream) }
        var names: [ClientName] = []
        for _ in 0..<Self.maximumFiles {
            guard let entry = readdir(stream) else { break }
            let file = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard file.hasSuffix(Self.suffix) else { continue }
            guard let name = try? ClientName(String(file.dropLast(Self.suffix.count))) else {
                // tor accepts this client, so the list must not omit it.
                throw .malformed(
                    file: "\(directory)/\(file)".debugDescription,
                    problem: "the name must be 1 to 64 letters, digits, - and _, followed by .auth")
            }
            names.append(name)
        }
        return names.sorted()
    }
}
