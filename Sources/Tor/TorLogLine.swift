// SPDX-License-Identifier: Apache-2.0

/// A line of tor's log: `Nov 21 18:36:54.000 [warn] …`.
package struct TorLogLine: Equatable, Sendable {
    /// How much it matters.
    package enum Severity: String, Sendable {
        case debug, info, notice, warn, err
    }

    /// How much it matters.
    package let severity: Severity
    /// What tor says, without characters that could write over a terminal, and cut off where it is endless.
    package let text: String

    private static let longestText = 400

    /// Reads a line; nil where it is not tor's.
    package init?(_ line: String) {
        guard let open = line.firstIndex(of: "["), let close = line[open...].firstIndex(of: "]"),
            let severity = Severity(rawValue: String(line[open...].dropFirst().prefix(upTo: close)))
        else { return nil }
        self.severity = severity
        let scalars = line[close...].dropFirst().drop { $0 == " " }.unicodeScalars.lazy
            .filter { $0.properties.generalCategory != .control }
        text = String(String.UnicodeScalarView(scalars.prefix(Self.longestText)))
    }

    /// Whether it is about this machine's clock: tor compares it with what others sign.
    package var isAboutClock: Bool {
        let text = text.lowercased()
        return text.contains("our clock is") && (text.contains("behind") || text.contains("ahead"))
    }
}
