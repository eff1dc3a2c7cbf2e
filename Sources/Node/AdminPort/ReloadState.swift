// SPDX-License-Identifier: Apache-2.0

import Settings

/// What the last reloads found in the files on disk. After a failed reload the node goes on with what it has read
/// before, so a broken file would otherwise show only at the next start.
package struct ReloadState: Sendable, Equatable {
    /// What a reload reads.
    package enum Subject: String, CaseIterable, Sendable {
        case configuration, credentials
    }

    /// A reload that has failed.
    package struct Failure: Sendable, Equatable {
        /// The time of the first of the failures in a row, Unix time in seconds.
        package let since: Int64
        /// The first errors, shortened and separated by semicolons.
        package let text: String
    }

    package private(set) var failures: [Subject: Failure] = [:]
    /// The keys that differ in the configuration on disk and take effect only after a restart.
    package private(set) var restartKeys: [String] = []

    /// How many errors of a failed reload are kept, and how many characters of each, because every response with the
    /// node's health contains them.
    private static let (shownErrors, maximumLength) = (3, 300)

    package init() {}

    /// Records that a reload has failed.
    /// - Returns: whether the error differs from the last one.
    package mutating func failed(_ subject: Subject, _ text: String, at now: Int64) -> Bool {
        let before = failures[subject]
        let lines = text.split(separator: "\n")
        let rest = lines.count - Self.shownErrors
        let text =
            lines.prefix(Self.shownErrors).map { String($0.prefix(Self.maximumLength)) }.joined(separator: "; ")
            + (rest > 0 ? "; and \(rest) more, which tocsin check tells" : "")
        failures[subject] = Failure(since: before?.since ?? now, text: text)
        return text != before?.text
    }

    /// Records that the credentials were read.
    package mutating func readCredentials() { failures[.credentials] = nil }

    /// Records that the configuration was read, and with it the credentials.
    package mutating func readConfiguration(restartKeys: [String]) {
        failures = [:]
        self.restartKeys = restartKeys
    }

    var concerns: [Concern] {
        var concerns = Subject.allCases.compactMap { subject in
            failures[subject].map { failure in
                Concern(
                    subject == .configuration
                        ? "the configuration on disk, or a file that it names, cannot be used"
                        : "a credential on disk cannot be used",
                    "\(failure.text); since \(Format.time(failure.since))", see: .reloadFailed)
            }
        }
        if !restartKeys.isEmpty {
            concerns.append(
                Concern("settings wait for a restart", restartKeys.joined(separator: ", "), see: .restartPending))
        }
        return concerns
    }
}
