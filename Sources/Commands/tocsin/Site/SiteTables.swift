// SPDX-License-Identifier: Apache-2.0

import Cryptography
import NodeConfiguration

/// The tables `[[site]]` in the text of a configuration. Everything else in the text, comments included, stays.
struct SiteTables {
    private(set) var text: String

    private static let header = "[[site]]"

    init(_ text: String) { self.text = text }

    /// Appends a table.
    /// - Parameters:
    ///   - key: the site's public key for TNP; `nil` if it has none.
    ///   - pathHash: the hash of the secret in its HTTP path; `nil` if it has none.
    mutating func add(_ name: String, key: [UInt8]?, pathHash: [UInt8]?, rights: [Site.Right]) {
        var lines = ["", Self.header, "name = \"\(name)\""]
        for (name, bytes) in [("key", key), ("path_hash", pathHash)] {
            guard let bytes else { continue }
            lines.append("\(name) = \"\(String(decoding: Base64.encode(bytes), as: UTF8.self))\"")
        }
        if !rights.isEmpty { lines.append("rights = [\(rights.map { "\"\($0.rawValue)\"" }.joined(separator: ", "))]") }
        if !text.isEmpty, text.last != "\n" { text += "\n" }
        text += lines.joined(separator: "\n") + "\n"
    }

    /// Removes the table of a site, up to the next table.
    /// - Returns: whether there was one.
    mutating func remove(_ name: String) -> Bool {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        func isHeader(_ line: Substring) -> Bool { line.drop { $0 == " " || $0 == "\t" }.first == "[" }
        func words(_ line: Substring) -> String { line.prefix { $0 != "#" }.filter { !$0.isWhitespace } }
        var start = lines.startIndex
        while let header = lines[start...].firstIndex(where: { words($0) == Self.header }) {
            let end = lines[(header + 1)...].firstIndex(where: isHeader) ?? lines.endIndex
            if lines[header..<end].contains(where: { ["name=\"\(name)\"", "name='\(name)'"].contains(words($0)) }) {
                // The comment and the empty lines before the next table belong to that table.
                let last = lines[header..<end].lastIndex { !words($0).isEmpty } ?? header
                let first = header > 0 && lines[header - 1].isEmpty ? header - 1 : header
                lines.removeSubrange(first...last)
                text = lines.joined(separator: "\n")
                return true
            }
            start = end
        }
        return false
    }
}
