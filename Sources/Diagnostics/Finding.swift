// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// One thing that was looked at, and what came of it. Holds nothing secret.
package struct Finding: Sendable, Equatable, Encodable {
    /// How it is.
    package enum Grade: String, Sendable, Encodable, CaseIterable {
        /// As it should be.
        case ok
        /// The node works, but somebody should look at it.
        case warning
        /// The node, or a part of it, does not work like this.
        case failed
    }

    /// What it belongs to.
    package enum Area: String, Sendable, Encodable, CaseIterable {
        case configuration, state, credentials, clock, machine, tor, ports, network, apple, google, onion, phone
    }

    package var area: Area
    /// Which of the area's things, e.g. a file, an app, an address.
    package var subject: String
    package var grade: Grade
    /// What is the case; where it is not well, also what to do.
    package var text: String

    /// - Parameters: as the properties of the same names.
    package init(_ area: Area, _ subject: String, _ grade: Grade, _ text: String) {
        self.area = area
        self.subject = subject
        self.grade = grade
        self.text = text
    }
}

extension [Finding] {
    /// As a JSON array of objects with `area`, `subject`, `grade` and `text`.
    package var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(self) else { return "[]" }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether something does not work.
    package var hasFailure: Bool { contains { $0.grade == .failed } }
}
