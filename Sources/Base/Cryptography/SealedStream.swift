// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Encrypts a stream of chunks under a passphrase. Argon2id (RFC 9106) makes the key; libsodium's secretstream
/// (XChaCha20-Poly1305) detects chunks that were changed, reordered or left out, also at the end.
package enum SealedStream {
    /// The largest plain chunk, in bytes.
    package static let maximumChunk = 64 * 1024
    /// The number of bytes by which a sealed chunk is longer than the plain one.
    package static let overhead = Int(crypto_secretstream_xchacha20poly1305_ABYTES)
    /// Length of the header in bytes: mark, version, cost, salt and the stream's own header.
    package static let headerLength = mark.count + 1 + 8 + saltLength + streamHeaderLength

    private static let mark = Array("TOCSINST".utf8)
    private static let version: UInt8 = 1
    private static let saltLength = Int(crypto_pwhash_SALTBYTES)
    private static let streamHeaderLength = Int(crypto_secretstream_xchacha20poly1305_HEADERBYTES)
    /// The cost of a new stream's key: passes, and KiB of memory. Making the key takes about half a second, also on a
    /// machine with 512 MB.
    private static let cost = (passes: UInt32(4), kibibytes: UInt32(128 * 1024))
    /// The largest cost that a stream to be opened may name: a forged header must not exhaust the machine.
    private static let maximumCost = (passes: UInt32(16), kibibytes: UInt32(256 * 1024))

    /// Why a stream cannot be opened.
    package enum Failure: Error, Equatable, Sendable {
        /// The bytes are not a sealed stream.
        case notSealedStream
        /// The stream was made by a newer version.
        case newerVersion(UInt8)
        /// The passphrase is wrong, or the stream was changed.
        case wrongPassphraseOrDamaged
        /// There is not enough memory to make the key.
        case memory
    }

    /// Seals the chunks of a stream.
    package struct Writer: ~Copyable {
        private var state = crypto_secretstream_xchacha20poly1305_state()
        /// The bytes that precede the chunks.
        package let header: [UInt8]

        /// - Throws: ``Failure/memory``.
        package init(passphrase: [UInt8]) throws(Failure) {
            let salt = SecureRandom.bytes(saltLength)
            var key = try SealedStream.key(passphrase, salt, cost)
            defer { sodium_memzero(&key, key.count) }
            var start = [UInt8](repeating: 0, count: streamHeaderLength)
            crypto_secretstream_xchacha20poly1305_init_push(&state, &start, key)
            header = mark + [version] + bytes(cost.passes) + bytes(cost.kibibytes) + salt + start
        }

        deinit {
            withUnsafePointer(to: state) {
                sodium_memzero(UnsafeMutablePointer(mutating: $0), MemoryLayout.size(ofValue: state))
            }
        }

        /// Seals a chunk of at most ``SealedStream/maximumChunk`` bytes.
        /// - Parameter isLast: whether the stream ends with it.
        package mutating func seal(_ chunk: [UInt8], isLast: Bool) -> [UInt8] {
            var output = [UInt8](repeating: 0, count: chunk.count + overhead)
            let tag = isLast ? crypto_secretstream_xchacha20poly1305_TAG_FINAL : 0
            crypto_secretstream_xchacha20poly1305_push(
                &state, &output, nil, chunk, UInt64(chunk.count), nil, 0, UInt8(tag))
            return output
        }
    }

    /// Opens the chunks of a stream.
    package struct Reader: ~Copyable {
        private var state = crypto_secretstream_xchacha20poly1305_state()

        /// - Parameter header: the first ``SealedStream/headerLength`` bytes, or fewer if there are no more.
        /// - Throws: ``Failure``.
        package init(header: [UInt8], passphrase: [UInt8]) throws(Failure) {
            guard header.starts(with: mark), header.count > mark.count else { throw .notSealedStream }
            guard header[mark.count] == version else { throw .newerVersion(header[mark.count]) }
            guard header.count == headerLength else { throw .notSealedStream }
            var rest = header.dropFirst(mark.count + 1)
            func number() -> UInt32 {
                defer { rest = rest.dropFirst(4) }
                return rest.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
            }
            let cost = (passes: number(), kibibytes: number())
            guard (1...maximumCost.passes).contains(cost.passes),
                (8...maximumCost.kibibytes).contains(cost.kibibytes)
            else { throw .notSealedStream }
            var key = try SealedStream.key(passphrase, Array(rest.prefix(saltLength)), cost)
            defer { sodium_memzero(&key, key.count) }
            let start = Array(rest.dropFirst(saltLength))
            guard crypto_secretstream_xchacha20poly1305_init_pull(&state, start, key) == 0 else {
                throw .notSealedStream
            }
        }

        deinit {
            withUnsafePointer(to: state) {
                sodium_memzero(UnsafeMutablePointer(mutating: $0), MemoryLayout.size(ofValue: state))
            }
        }

        /// Opens a chunk.
        /// - Throws: ``Failure/wrongPassphraseOrDamaged``.
        package mutating func open(_ sealed: [UInt8]) throws(Failure) -> (chunk: [UInt8], isLast: Bool) {
            guard sealed.count >= overhead else { throw .wrongPassphraseOrDamaged }
            var output = [UInt8](repeating: 0, count: sealed.count - overhead)
            var tag: UInt8 = 0
            let result = crypto_secretstream_xchacha20poly1305_pull(
                &state, &output, nil, &tag, sealed, UInt64(sealed.count), nil, 0)
            guard result == 0 else { throw .wrongPassphraseOrDamaged }
            return (output, Int32(tag) == Int32(crypto_secretstream_xchacha20poly1305_TAG_FINAL))
        }
    }

    private static func bytes(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private static func key(
        _ passphrase: [UInt8], _ salt: [UInt8], _ cost: (passes: UInt32, kibibytes: UInt32)
    ) throws(Failure) -> [UInt8] {
        Sodium.initialised
        var key = [UInt8](repeating: 0, count: Int(crypto_secretstream_xchacha20poly1305_KEYBYTES))
        let result = passphrase.withUnsafeBytes { passphrase in
            crypto_pwhash(
                &key, UInt64(key.count),
                passphrase.bindMemory(to: CChar.self).baseAddress ?? UnsafePointer(bitPattern: 1)!,
                UInt64(passphrase.count), salt, UInt64(cost.passes), Int(cost.kibibytes) * 1024,
                crypto_pwhash_ALG_ARGON2ID13)
        }
        guard result == 0 else { throw .memory }
        return key
    }
}
