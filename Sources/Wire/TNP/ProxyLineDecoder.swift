// SPDX-License-Identifier: Apache-2.0

/// Decodes the PROXY line (version 1) in which tor names the circuit of a stream
/// (`HiddenServiceExportCircuitID haproxy`).
public struct ProxyLineDecoder: Sendable {
    /// The largest length of the line in bytes, CR LF included.
    public static let maximumLength = 107
    private var line: [UInt8] = []

    /// Creates a decoder for the beginning of a stream.
    public init() {}

    /// Consumes bytes of the stream up to the end of the line.
    /// - Returns: the circuit's id once the line is complete, and how many of `bytes` belong to the line.
    /// - Throws: ``ProtocolError`` if the stream does not start with such a line.
    public mutating func append(_ bytes: RawSpan) throws(ProtocolError) -> (circuit: UInt32?, taken: Int) {
        var taken = 0
        while taken < bytes.byteCount {
            let byte = bytes.unsafeLoad(fromByteOffset: taken, as: UInt8.self)
            taken += 1
            line.append(byte)
            if byte == UInt8(ascii: "\n") { return (try circuit(), taken) }
            let prefix = Array("PROXY ".utf8)
            guard line.count <= Self.maximumLength, line.prefix(prefix.count).elementsEqual(prefix.prefix(line.count))
            else { throw Self.fault }
        }
        return (nil, taken)
    }

    private static let fault = ProtocolError.malformed(
        "the stream does not start with a PROXY line (tor's HiddenServiceExportCircuitID haproxy)")

    /// tor writes the id as the last two groups of an address in fc00:dead:beef:4dad::/96.
    private func circuit() throws(ProtocolError) -> UInt32 {
        let text = String(decoding: line, as: UTF8.self)
        guard line.count <= Self.maximumLength, text.hasSuffix("\r\n") else { throw Self.fault }
        let words = text.dropLast().split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 6, words[0] == "PROXY", words[1] == "TCP6", UInt16(words[4]) != nil,
            UInt16(words[5]) != nil, words[2].hasPrefix("fc00:dead:beef:4dad::")
        else { throw Self.fault }
        let groups = words[2].dropFirst("fc00:dead:beef:4dad::".count).split(
            separator: ":", omittingEmptySubsequences: false)
        guard groups.count == 2, let high = UInt16(groups[0], radix: 16), let low = UInt16(groups[1], radix: 16) else {
            throw Self.fault
        }
        return UInt32(high) << 16 | UInt32(low)
    }
}
