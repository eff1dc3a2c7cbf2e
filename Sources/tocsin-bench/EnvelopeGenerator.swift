// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Envelopes for loads, no two of them the same: iv and ciphertext begin with a number that only grows.
struct EnvelopeGenerator {
    private let tokens: [Magic: [[UInt8]]]
    private let ciphertextLength: Int
    private var counter = UInt64.random(in: 0...UInt64.max)

    /// - Parameters:
    ///   - tokens: the devices of each kind that take turns.
    ///   - ciphertextLength: in bytes, a multiple of 16.
    init(_ tokens: [Magic: [[UInt8]]], ciphertextLength: Int = 256) {
        self.tokens = tokens
        self.ciphertextLength = ciphertextLength
    }

    mutating func next(_ magic: Magic) -> Envelope {
        counter &+= 1
        let mark = Array(Hex.encode(withUnsafeBytes(of: counter) { Array($0) }).utf8)
        let filling = [UInt8](repeating: UInt8(truncatingIfNeeded: counter), count: ciphertextLength - mark.count)
        let devices = tokens[magic] ?? []
        do {
            return try Envelope(
                magic: magic, deviceToken: devices[Int(counter % UInt64(devices.count))][...], iv: mark[...],
                ciphertext: (mark + filling)[...], format: .pipe)
        } catch {
            // A fault of this very function or of --ciphertext: no load can be made of it.
            fatalError("the load makes an envelope that is none: \(error)")
        }
    }
}
