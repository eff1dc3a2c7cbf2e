// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// A message to the resolver: look this host up.
struct ResolverRequest: Equatable {
    var number: UInt64
    var host: String

    /// The largest request in bytes.
    static let maximumBytes = 8 + NameAnswer.maximumNameLength

    var encoded: [UInt8] { number.bytes + Array(host.utf8) }

    init(number: UInt64, host: String) { (self.number, self.host) = (number, host) }

    /// - Returns: `nil` if the bytes are no request.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count > 8, bytes.count <= Self.maximumBytes, !bytes[8...].contains(0),
            let host = String(validating: bytes[8...], as: UTF8.self)
        else { return nil }
        number = UInt64(bytes: bytes[..<8])
        self.host = host
    }
}

/// The resolver's answer. Names come from strangers, and so do the bytes that the resolver has read: it is not trusted.
struct ResolverAnswer: Equatable {
    var number: UInt64
    var answer: NameAnswer

    /// The largest answer in bytes.
    static let maximumBytes = 9 + NameAnswer.maximumAddresses * (1 + 16 + 4)
    private static let maximumReasonLength = 256

    /// The byte before an address, or before the text of a failure.
    private enum Kind: UInt8 {
        case ipv4 = 4
        case ipv6 = 6
        case failure = 0
        case unknownHost = 1
    }

    var encoded: [UInt8] {
        switch answer {
        case .failure(let reason, let isUnknown):
            number.bytes + [(isUnknown ? Kind.unknownHost : .failure).rawValue]
                + Array(reason.utf8.prefix(Self.maximumReasonLength))
        case .addresses(let addresses):
            addresses.prefix(NameAnswer.maximumAddresses).reduce(into: number.bytes) { bytes, address in
                bytes.append((address.bytes.count == 4 ? Kind.ipv4 : .ipv6).rawValue)
                bytes += address.bytes
                if address.bytes.count == 16 { bytes += address.scope.bytes }
            }
        }
    }

    init(number: UInt64, answer: NameAnswer) { (self.number, self.answer) = (number, answer) }

    /// - Returns: `nil` if the bytes are no answer.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count > 8, bytes.count <= Self.maximumBytes else { return nil }
        number = UInt64(bytes: bytes[..<8])
        var rest = bytes[8...]
        var addresses: [HostAddress] = []
        while let kind = rest.popFirst().map(Kind.init(rawValue:)) {
            switch kind {
            case .failure, .unknownHost:
                guard addresses.isEmpty, rest.count <= Self.maximumReasonLength else { return nil }
                // Printable ASCII only, because the reason gets into the log.
                let reason = String(decoding: rest.filter { (0x20..<0x7F).contains($0) }, as: UTF8.self)
                answer = .failure(reason, isUnknown: kind == .unknownHost)
                return
            case .ipv4:
                guard let address = HostAddress(bytes: Array(rest.prefix(4))), rest.count >= 4 else { return nil }
                addresses.append(address)
                rest = rest.dropFirst(4)
            case .ipv6:
                guard rest.count >= 20,
                    let address = HostAddress(
                        bytes: Array(rest.prefix(16)), scope: UInt32(bytes: rest.dropFirst(16).prefix(4)))
                else { return nil }
                addresses.append(address)
                rest = rest.dropFirst(20)
            case nil: return nil
            }
            // IPv4 addresses are shorter: more than the maximum would fit.
            guard addresses.count <= NameAnswer.maximumAddresses else { return nil }
        }
        answer = .addresses(addresses)
    }
}

extension FixedWidthInteger {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

    fileprivate init(bytes: ArraySlice<UInt8>) { self = bytes.reduce(0) { $0 << 8 | Self($1) } }
}
