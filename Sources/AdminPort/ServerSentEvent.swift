// SPDX-License-Identifier: Apache-2.0

/// Encodes server-sent events, the format that `EventSource` reads.
enum ServerSentEvent {
    /// Encodes an event.
    /// - Parameters:
    ///   - name: letters only.
    ///   - data: any text; its line breaks are preserved.
    static func encoded(_ name: String, _ data: String) -> [UInt8] {
        var output = Array("event: \(name)\n".utf8)
        // In this format CR, LF and CR LF all end a line.
        for line in data.split(omittingEmptySubsequences: false, whereSeparator: \.isEventLineEnd) {
            output += "data: ".utf8
            output += line.utf8
            output.append(UInt8(ascii: "\n"))
        }
        output.append(UInt8(ascii: "\n"))
        return output
    }
}

extension Character {
    fileprivate var isEventLineEnd: Bool { self == "\n" || self == "\r" || self == "\r\n" }
}
