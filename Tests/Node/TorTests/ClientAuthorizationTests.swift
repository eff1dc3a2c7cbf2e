// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TestSupport
import Testing

@testable import Tor

@Suite(.tags(.sockets)) struct ClientAuthorizationTests {
    private static let address = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid"
    /// The key with the bytes 1 to 32, encoded with Python's base64.
    private static let secret = "AEBAGBAFAYDQQCIKBMGA2DQPCAIREEYUCULBOGAZDINRYHI6D4QA"
    private static let publicHalf = "A6RXZPAUECJ4RN2V3QNRB2DMWQTDOSWRNKUFH3IL37ALFODNDR6A"
    private let onion = OnionAddress(publicKey: [UInt8](repeating: 9, count: 32))

    // MARK: Lines

    @Test func `a client key is parsed and printed in tor's line format`() throws {
        let key = try #require(OnionKey(line: Array("\(Self.address):descriptor:x25519:\(Self.secret)".utf8)))
        #expect(key.address.label == Self.address)
        #expect(X25519.publicKey(of: key.privateKey) == Base32.decode(Self.publicHalf.utf8))
        #expect(String(decoding: key.line, as: UTF8.self) == "\(Self.address):descriptor:x25519:\(Self.secret)")
    }

    @Test func `a new key pair is consistent and unique`() throws {
        let onion = try #require(onion)
        let (one, other) = (ClientAuthorization(for: onion), ClientAuthorization(for: onion))
        #expect(one.publicKey != other.publicKey)
        #expect(X25519.publicKey(of: one.key.privateKey) == one.publicKey)
        let file = String(decoding: ClientAuthorization.serviceFile(of: one.publicKey), as: UTF8.self)
        #expect(file.hasPrefix("descriptor:x25519:"))
        #expect(file.utf8.count == "descriptor:x25519:".utf8.count + 52 + 1)
        #expect(!file.contains("="))
        #expect("\(one) \(one.key)" == "<redacted> <redacted>")
    }

    @Test(arguments: [
        "", ":", "\(address)", "\(address):descriptor:x25519:", "\(address):descriptor:x25519:\(secret)A",
        "\(address):descriptor:x25519:\(secret.dropLast(2))", "\(address):descriptor:x448:\(secret)",
        "\(address).onion:descriptor:x25519:\(secret)", "a\(address.dropFirst()):descriptor:x25519:\(secret)",
        "\(address):descriptor:x25519:\(secret)\n\(address):descriptor:x25519:\(secret)",
        " \(address):descriptor:x25519:\(secret)", "descriptor:x25519:\(publicHalf)",
    ])
    func `malformed client keys are not parsed`(_ line: String) { #expect(OnionKey(line: Array(line.utf8)) == nil) }

    @Test func `a key file has mode 0600 and is never overwritten`() async throws {
        let key = ClientAuthorization(for: try #require(onion)).key
        try await withDirectory { directory in
            let file = "\(directory)/alice.auth_private"
            try key.write(to: file)
            #expect(mode(of: file) == 0o600)
            #expect(try OnionKey(file: file).line == key.line)
            #expect(throws: OnionFileError.system(action: "create", path: file, errno: EEXIST)) {
                try key.write(to: file)
            }
            try #require(chmod(file, 0o640) == 0)
            #expect(throws: OnionFileError.accessibleByOthers(file: file)) { try OnionKey(file: file) }
            for text in ["", "no key\n", String(repeating: "x", count: 1000)] {
                try write(Array(text.utf8), to: file)
                let error = #expect(throws: OnionFileError.self) { try OnionKey(file: file) }
                guard case .malformed(file, _)? = error else {
                    Issue.record("not reported as malformed")
                    continue
                }
            }
        }
    }

    // MARK: Names

    @Test(arguments: ["a", "Alice", "bob-2_X", String(repeating: "x", count: 64)])
    func `a client name may have letters, digits, dashes and underscores`(_ text: String) throws {
        #expect(try ClientName(text).description == text)
    }

    @Test(arguments: [
        "", ".", "..", "a/b", "../a", "a b", "a.auth", "ä", "a\n", "a\u{0}", "$(x)", String(repeating: "x", count: 65),
    ])
    func `other client names are rejected`(_ text: String) {
        #expect(throws: OnionFileError.badName) { try ClientName(text) }
    }

    // MARK: The directory

    @Test func `clients are authorised, listed by name and revoked`() async throws {
        let onion = try #require(onion)
        try await withDirectory { directory in
            let clients = AuthorizedClients(serviceDirectory: directory)
            #expect(try clients.list() == [])
            let (alice, bob) = (try ClientName("alice"), try ClientName("bob"))
            let pair = ClientAuthorization(for: onion)
            try clients.authorize(pair.publicKey, as: bob)
            try clients.authorize(ClientAuthorization(for: onion).publicKey, as: alice)
            #expect(try clients.list().map(\.name) == [alice, bob])
            #expect(try clients.list().allSatisfy(\.isValid))
            let file = "\(directory)/authorized_clients/bob.auth"
            #expect(bytes(of: file) == ClientAuthorization.serviceFile(of: pair.publicKey))
            #expect(mode(of: file) == 0o640)
            #expect(mode(of: "\(directory)/authorized_clients") == 0o700)
            #expect(throws: OnionFileError.clientExists(bob)) { try clients.authorize(pair.publicKey, as: bob) }
            try clients.revoke(bob)
            #expect(try clients.list().map(\.name) == [alice])
            #expect(throws: OnionFileError.noSuchClient(bob, directory: clients.directory)) {
                try clients.revoke(bob)
            }
        }
    }

    @Test func `the last client is revoked only with permission to open the onion to all`() async throws {
        let onion = try #require(onion)
        try await withDirectory { directory in
            let clients = AuthorizedClients(serviceDirectory: directory)
            let (alice, broken) = (try ClientName("alice"), try ClientName("broken"))
            try clients.authorize(ClientAuthorization(for: onion).publicKey, as: alice)
            try write(Array("nothing".utf8), to: "\(clients.directory)/broken.auth")
            #expect(try clients.list().map(\.isValid) == [true, false])
            // A file that tor cannot read does not restrict access.
            #expect(throws: OnionFileError.lastClient(alice)) { try clients.revoke(alice) }
            try clients.revoke(broken)
            #expect(throws: OnionFileError.lastClient(alice)) { try clients.revoke(alice) }
            try clients.revoke(alice, opensToAll: true)
            #expect(try clients.list() == [])
        }
    }

    @Test func `more clients than fit into a descriptor are rejected`() async throws {
        let key = ClientAuthorization(for: try #require(onion)).publicKey
        try await withDirectory { directory in
            let clients = AuthorizedClients(serviceDirectory: directory)
            for index in 0..<AuthorizedClients.maximumClients {
                try clients.authorize(key, as: ClientName("c\(index)"))
            }
            #expect(throws: OnionFileError.tooManyClients(limit: AuthorizedClients.maximumClients)) {
                try clients.authorize(key, as: ClientName("one-more"))
            }
        }
    }

    @Test func `a client file with an invalid name fails the listing`() async throws {
        try await withDirectory { directory in
            let clients = AuthorizedClients(serviceDirectory: directory)
            try FileManager.default.createDirectory(atPath: clients.directory, withIntermediateDirectories: false)
            try write([], to: "\(clients.directory)/no client.txt")
            #expect(try clients.list() == [])
            try write([], to: "\(clients.directory)/a b.auth")
            let error = #expect(throws: OnionFileError.self) { try clients.list() }
            #expect(error?.description.contains("a b.auth") == true)
        }
    }

    @Test func `clients are added from another service, and a malformed one stops it`() async throws {
        let onion = try #require(onion)
        try await withDirectory { directory in
            let (old, new) = (
                AuthorizedClients(serviceDirectory: "\(directory)/old"),
                AuthorizedClients(serviceDirectory: "\(directory)/new")
            )
            try new.add(old.keys())
            #expect(try new.list() == [])
            try old.authorize(ClientAuthorization(for: onion).publicKey, as: ClientName("alice"))
            try old.authorize(ClientAuthorization(for: onion).publicKey, as: ClientName("bob"))
            try new.add(old.keys())
            try new.add(old.keys())
            #expect(try new.list().map(\.name.description) == ["alice", "bob"])
            #expect(bytes(of: "\(new.directory)/bob.auth") == bytes(of: "\(old.directory)/bob.auth"))
            try write(Array("descriptor:x25519:AAAA\n".utf8), to: "\(old.directory)/carol.auth")
            #expect(throws: OnionFileError.self) { try new.add(old.keys()) }
        }
    }
}
