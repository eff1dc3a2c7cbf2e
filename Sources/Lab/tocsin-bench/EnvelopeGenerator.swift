// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TNP

/// Generates distinct envelopes: the iv is a counter, and the ciphertext begins with it.
struct EnvelopeGenerator {
    private let tokens: [Magic: [[UInt8]]]?
    private let ciphertextLength: Int
    private var counter = HexCounter()

    /// How often a new device token repeats the counter: 64 digits in all, as in Apple's device tokens.
    private static let countersPerToken = 4

    /// Generates envelopes for known devices.
    /// - Parameters:
    ///   - tokens: the device tokens of each kind, used in turn.
    ///   - ciphertextLength: in bytes, a multiple of 16.
    init(_ tokens: [Magic: [[UInt8]]], ciphertextLength: Int = 256) {
        self.tokens = tokens
        self.ciphertextLength = ciphertextLength
    }

    /// Generates envelopes with a new device token each.
    /// - Parameter ciphertextLength: in bytes, a multiple of 16.
    init(ciphertextLength: Int) {
        tokens = nil
        self.ciphertextLength = ciphertextLength
    }

    /// The next envelope for a device of this kind.
    mutating func next(_ magic: Magic) -> Envelope {
        counter.advance()
        if magic == .web { return nextByWebPush() }
        // New device token, iv and ciphertext are slices of one array, so that an envelope costs one allocation.
        let tokenCounters = tokens == nil ? Self.countersPerToken : 0
        let iv = tokenCounters * HexCounter.digits
        let ciphertext = iv + HexCounter.digits
        var bytes: [UInt8] = []
        bytes.reserveCapacity(ciphertext + ciphertextLength)
        counter.append(to: &bytes, times: tokenCounters + 2)
        bytes.append(
            contentsOf: repeatElement(
                UInt8(truncatingIfNeeded: counter.value), count: ciphertextLength - HexCounter.digits))
        return Self.valid { () throws(Rejection) in
            try Envelope(
                magic: magic, deviceToken: knownDevice(magic) ?? bytes[..<iv], iv: bytes[iv..<ciphertext],
                ciphertext: bytes[ciphertext...], format: .pipe)
        }
    }

    /// The next envelope for a Web Push subscription: a message whose salt is the counter.
    private func nextByWebPush() -> Envelope {
        var salt: [UInt8] = []
        counter.append(to: &salt, times: 1)
        let message = WebPushContent.imitation(
            salt: salt, Array(repeating: UInt8(truncatingIfNeeded: counter.value), count: ciphertextLength))
        return Self.valid { () throws(Rejection) in
            try Envelope(
                magic: .web, deviceToken: knownDevice(.web) ?? [], iv: [], ciphertext: message[...], format: .pipe)
        }
    }

    private static func valid(_ make: () throws(Rejection) -> Envelope) -> Envelope {
        do throws(Rejection) {
            return try make()
        } catch {
            // An error in this file or in --ciphertext: the benchmark cannot continue.
            fatalError("generated an invalid envelope: \(error)")
        }
    }

    private func knownDevice(_ magic: Magic) -> ArraySlice<UInt8>? {
        guard let devices = tokens?[magic] else { return nil }
        return devices[Int(counter.value % UInt64(devices.count))][...]
    }
}
