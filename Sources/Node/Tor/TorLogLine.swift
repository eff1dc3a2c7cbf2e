// SPDX-License-Identifier: Apache-2.0

/// A line of tor's log: `Nov 21 18:36:54.000 [warn] …`.
package struct TorLogLine: Equatable, Sendable {
    /// The severities of tor's log.
    package enum Severity: String, Sendable {
        case debug, info, notice, warn, err
    }

    /// The line's severity.
    package let severity: Severity
    /// The message without control characters, which could manipulate a terminal; at most 400 characters.
    package let text: String

    private static let maximumTextLength = 400
    /// The events for ``init(event:)`` to subscribe to with `SETEVENTS`.
    static let events = "WARN ERR"

    /// Parses a line; `nil` if it is not in tor's format.
    package init?(_ line: String) {
        guard let open = line.firstIndex(of: "["), let close = line[open...].firstIndex(of: "]"),
            let severity = Severity(rawValue: String(line[open...].dropFirst().prefix(upTo: close)))
        else { return nil }
        self.severity = severity
        text = Self.plain(line[close...].dropFirst().drop { $0 == " " })
    }

    /// Parses an event of tor's control port, `650 WARN …` (control-spec, "Log messages"); `nil` for any other.
    package init?(event line: String) {
        let words = line.split(separator: " ", maxSplits: 2)
        guard words.count == 3, words[0] == "650",
            let severity = Severity(rawValue: words[1].lowercased())
        else { return nil }
        self.severity = severity
        text = Self.plain(words[2])
    }

    /// Removes control characters and cuts the text to ``maximumTextLength``.
    private static func plain(_ text: Substring) -> String {
        let scalars = text.unicodeScalars.lazy.filter { $0.properties.generalCategory != .control }
        return String(String.UnicodeScalarView(scalars.prefix(maximumTextLength)))
    }

    /// Whether the line cannot be the reason for tor's exit: it only refers to lines before it, or is about a problem
    /// that tor tolerates.
    var isGeneral: Bool {
        ["see warnings above", "See logs for details", "left us in a broken state"].contains { text.contains($0) }
            || ["You are running Tor as root", "Fixing permissions on"].contains { text.hasPrefix($0) }
    }

    /// Whether tor reports that this machine's clock is wrong: tor compares it with signed times from others.
    package var isAboutClock: Bool {
        let text = text.lowercased()
        return text.contains("our clock is") && (text.contains("behind") || text.contains("ahead"))
    }
}
