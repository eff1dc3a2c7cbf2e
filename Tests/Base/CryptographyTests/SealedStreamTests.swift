// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Cryptography

@Suite(.tags(.computing)) struct SealedStreamTests {
    private static let passphrase = Array("correct horse battery".utf8)

    private static func sealed(_ chunks: [[UInt8]]) throws -> (header: [UInt8], chunks: [[UInt8]]) {
        var writer = try SealedStream.Writer(passphrase: passphrase)
        var sealed: [[UInt8]] = []
        for (index, chunk) in chunks.enumerated() {
            sealed.append(writer.seal(chunk, isLast: index == chunks.count - 1))
        }
        return (writer.header, sealed)
    }

    private func open(_ header: [UInt8], _ chunks: [[UInt8]], _ passphrase: [UInt8] = passphrase) throws -> [[UInt8]] {
        var reader = try SealedStream.Reader(header: header, passphrase: passphrase)
        var plain: [[UInt8]] = []
        for (index, chunk) in chunks.enumerated() {
            let (bytes, isLast) = try reader.open(chunk)
            #expect(isLast == (index == chunks.count - 1))
            plain.append(bytes)
        }
        return plain
    }

    @Test func `what was sealed can be opened with the same passphrase only`() throws {
        let plain: [[UInt8]] = [[1, 2, 3], [], [UInt8](repeating: 7, count: SealedStream.maximumChunk)]
        let (header, chunks) = try Self.sealed(plain)
        #expect(header.count == SealedStream.headerLength)
        #expect(chunks.map(\.count) == plain.map { $0.count + SealedStream.overhead })
        #expect(try open(header, chunks) == plain)
        #expect(throws: SealedStream.Failure.wrongPassphraseOrDamaged) {
            try open(header, chunks, Array("correct horse batterY".utf8))
        }
    }

    @Test func `changed, left out and exchanged chunks are detected`() throws {
        let (header, chunks) = try Self.sealed([[1], [2], [3]])
        var changed = chunks
        changed[1][3] ^= 1
        for wrong in [changed, [chunks[0], chunks[2]], [chunks[1], chunks[0], chunks[2]], [[]]] {
            #expect(throws: SealedStream.Failure.wrongPassphraseOrDamaged) { try open(header, wrong) }
        }
        // Without its last chunk the stream has no end.
        var reader = try SealedStream.Reader(header: header, passphrase: Self.passphrase)
        #expect(try !reader.open(chunks[0]).isLast)
        #expect(try !reader.open(chunks[1]).isLast)
    }

    @Test func `a header that is foreign, cut short, newer or too expensive is refused before a key is made`() throws {
        let header = try Self.sealed([[1]]).header
        func failure(_ header: [UInt8]) -> SealedStream.Failure? {
            do {
                _ = try SealedStream.Reader(header: header, passphrase: Self.passphrase)
                return nil
            } catch {
                return error
            }
        }
        #expect(failure(Array("HTTP/1.1 200 OK".utf8)) == .notSealedStream)
        #expect(failure([]) == .notSealedStream)
        #expect(failure(Array(header.dropLast())) == .notSealedStream)
        var newer = header
        newer[8] = 2
        #expect(failure(newer) == .newerVersion(2))
        var expensive = header
        for index in 9..<17 { expensive[index] = 0xFF }
        #expect(failure(expensive) == .notSealedStream)
    }
}
