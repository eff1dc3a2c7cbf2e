// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// The result of one check. Contains no secrets.
package struct Finding: Sendable, Equatable, Encodable {
    /// The severity of a finding.
    package enum Grade: String, Sendable, Encodable, CaseIterable {
        /// Nothing is wrong.
        case ok
        /// The node works, but the operator should act.
        case warning
        /// The node or a part of it cannot work.
        case failed
    }

    /// The subject area of a finding.
    package enum Area: String, Sendable, Encodable, CaseIterable {
        case configuration, state, credentials, clock, machine, tor, ports, network, apple, google, upstream, cluster,
            onion, phone
    }

    /// The area that was checked.
    package var area: Area
    /// The object that was checked, e.g. a file, an app or an address.
    package var subject: String
    package var grade: Grade
    /// The observation, and the remedy unless the grade is `ok`.
    package var text: String

    package init(_ area: Area, _ subject: String, _ grade: Grade, _ text: String) {
        self.area = area
        self.subject = subject
        self.grade = grade
        self.text = text
    }
}

extension [Finding] {
    /// The findings as a JSON array of objects with `area`, `subject`, `grade` and `text`.
    package var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(self) else { return "[]" }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether any check has failed.
    package var hasFailure: Bool { contains { $0.grade == .failed } }
}
