// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Generates distinct envelopes: iv and ciphertext begin with a counter.
struct EnvelopeGenerator {
    private let tokens: [Magic: [[UInt8]]]
    private let ciphertextLength: Int
    private var counter = UInt64.random(in: 0...UInt64.max)

    /// - Parameters:
    ///   - tokens: the device tokens of each kind, used in turn.
    ///   - ciphertextLength: in bytes, a multiple of 16.
    init(_ tokens: [Magic: [[UInt8]]], ciphertextLength: Int = 256) {
        self.tokens = tokens
        self.ciphertextLength = ciphertextLength
    }

    /// The next envelope for a device of this kind.
    mutating func next(_ magic: Magic) -> Envelope {
        counter &+= 1
        let mark = Array(Hex.encode(withUnsafeBytes(of: counter) { Array($0) }).utf8)
        let padding = [UInt8](repeating: UInt8(truncatingIfNeeded: counter), count: ciphertextLength - mark.count)
        let devices = tokens[magic] ?? []
        do {
            return try Envelope(
                magic: magic, deviceToken: devices[Int(counter % UInt64(devices.count))][...], iv: mark[...],
                ciphertext: (mark + padding)[...], format: .pipe)
        } catch {
            // An error in this function or in --ciphertext: the benchmark cannot continue.
            fatalError("generated an invalid envelope: \(error)")
        }
    }
}
