// SPDX-License-Identifier: Apache-2.0

/// An event as `EventSource` reads it.
enum ServerSentEvent {
    /// - Parameters:
    ///   - name: letters.
    ///   - data: any text; its lines stay lines.
    static func encoded(_ name: String, _ data: String) -> [UInt8] {
        var output = Array("event: \(name)\n".utf8)
        // CR, LF and CR LF all end a line there.
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
