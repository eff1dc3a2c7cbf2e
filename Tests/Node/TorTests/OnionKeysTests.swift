// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TestSupport
import Testing

@testable import Tor

@Suite(.tags(.sockets)) struct OnionKeysTests {
    private let address = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
    /// RFC 8032's first test key, which is no secret.
    private let secretFile =
        Array("== ed25519v1-secret: type0 ==".utf8) + [0, 0, 0]
        + (Hex.decode(
            "307c83864f2833cb427a2ef1c00a013cfdff2768d980c0a3a520f006904de94f"
                + "9b4f0afe280b746a778684e75442502057b7473a03f08f96f5a38e9287e01f8f") ?? [])
    private let publicFile =
        Array("== ed25519v1-public: type0 ==".utf8) + [0, 0, 0]
        + (Hex.decode("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a") ?? [])

    @Test func `tor's key files yield the address, with or without the public key`() async throws {
        try await withDirectory { directory in
            try write(secretFile, to: "\(directory)/hs_ed25519_secret_key")
            #expect(try "\(OnionKeys(directory: directory).address)" == address)
            try write(publicFile, to: "\(directory)/hs_ed25519_public_key", mode: 0o644)
            #expect(try "\(OnionKeys(directory: directory).address)" == address)
        }
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o602] as [mode_t])
    func `a secret key that others can access is rejected`(_ mode: mode_t) async throws {
        try await withDirectory { directory in
            let file = "\(directory)/hs_ed25519_secret_key"
            try write(secretFile, to: file, mode: mode)
            let error = #expect(throws: OnionFileError.accessibleByOthers(file: file)) {
                try OnionKeys(directory: directory)
            }
            #expect(error?.description.contains("chmod 600 \(file)") == true)
        }
    }

    @Test func `a secret key file with a wrong length, wrong header or zero scalar is rejected`() async throws {
        try await withDirectory { directory in
            let file = "\(directory)/hs_ed25519_secret_key"
            var otherHeader = secretFile
            otherHeader[5] ^= 1
            let zero = Array(secretFile.prefix(32)) + [UInt8](repeating: 0, count: 64)
            for bytes in [[], secretFile.dropLast(), secretFile + [0], otherHeader, publicFile, zero] as [[UInt8]] {
                try write(bytes, to: file)
                let error = #expect(throws: OnionFileError.self) { try OnionKeys(directory: directory) }
                guard case .malformed(file, _)? = error else {
                    Issue.record("\(bytes.count) bytes: not reported as malformed")
                    continue
                }
            }
        }
    }

    @Test func `a public key that does not match the secret key is rejected`() async throws {
        try await withDirectory { directory in
            try write(secretFile, to: "\(directory)/hs_ed25519_secret_key")
            var other = publicFile
            other[40] ^= 1
            for bytes in [other, [], publicFile.dropLast()] as [[UInt8]] {
                try write(bytes, to: "\(directory)/hs_ed25519_public_key")
                #expect(throws: OnionFileError.mismatch(directory: directory)) {
                    try OnionKeys(directory: directory)
                }
            }
        }
    }

    @Test func `keys of a non-anonymous service are rejected`() async throws {
        try await withDirectory { directory in
            try write(secretFile, to: "\(directory)/hs_ed25519_secret_key")
            try write([], to: "\(directory)/onion_service_non_anonymous")
            #expect(throws: OnionFileError.nonAnonymous(directory: directory)) { try OnionKeys(directory: directory) }
        }
    }

    @Test func `a missing key file is named, and a pipe in its place is rejected without blocking`() async throws {
        try await withDirectory { directory in
            let file = "\(directory)/hs_ed25519_secret_key"
            #expect(throws: OnionFileError.missing(file: file)) { try OnionKeys(directory: directory) }
            #expect(try OnionKeys.present(in: directory) == nil)
            try #require(mkfifo(file, 0o600) == 0)
            #expect(throws: OnionFileError.malformed(file: file, problem: "it is not a regular file")) {
                try OnionKeys(directory: directory)
            }
        }
    }

    @Test func `keys are written with mode 0600 and never replace other keys`() async throws {
        try await withDirectory { directory in
            let (source, target) = ("\(directory)/source", "\(directory)/state/tor/onion")
            try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: false)
            try write(secretFile, to: "\(source)/hs_ed25519_secret_key")
            let keys = try OnionKeys(directory: source)
            try keys.write(to: target)
            #expect(bytes(of: "\(target)/hs_ed25519_secret_key") == secretFile)
            #expect(bytes(of: "\(target)/hs_ed25519_public_key") == publicFile)
            #expect(mode(of: "\(target)/hs_ed25519_secret_key") == 0o600)
            #expect(mode(of: "\(target)/hs_ed25519_public_key") == 0o600)
            for path in [target, "\(directory)/state/tor", "\(directory)/state"] { #expect(mode(of: path) == 0o700) }
            #expect(try FileManager.default.contentsOfDirectory(atPath: target).count == 2)

            // Writing the same keys again succeeds.
            try keys.write(to: target)

            var other = secretFile
            other[32] ^= 8
            try write(other, to: "\(source)/hs_ed25519_secret_key")
            let otherKeys = try OnionKeys(directory: source)
            #expect(throws: OnionFileError.occupied(directory: target, address: keys.address)) {
                try otherKeys.write(to: target)
            }
            #expect(bytes(of: "\(target)/hs_ed25519_secret_key") == secretFile)
        }
    }

    @Test func `keys print as redacted`() async throws {
        try await withDirectory { directory in
            try write(secretFile, to: "\(directory)/hs_ed25519_secret_key")
            let keys = try OnionKeys(directory: directory)
            #expect("\(keys)" == "<redacted>")
            #expect(String(reflecting: keys).contains("307c") == false)
        }
    }
}
