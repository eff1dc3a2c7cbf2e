// SPDX-License-Identifier: Apache-2.0

/// A problem that the operator should know of or fix.
package struct Concern: Sendable, Equatable {
    /// The section of Docs/operations.md that says what to do.
    package enum Section: String, CaseIterable, Sendable {
        case pushServiceStopped = "TocsinPushServiceStopped"
        case probeFails = "TocsinProbeFails"
        case tokenRefusalSurge = "TocsinTokenRefusalSurge"
        case credentialEndsSoon = "TocsinCredentialEndsSoon"
        case credentialEnded = "TocsinCredentialEnded"
        case spoolRefuses = "TocsinSpoolRefuses"
        case onionNotPublished = "TocsinOnionNotPublished"
        case keyHolderLost = "TocsinKeyHolderLost"
        case engineUnavailable = "TocsinEngineUnavailable"
        case nodeAbsent = "TocsinNodeAbsent"
        case canarySilent = "TocsinCanarySilent"
        case reloadFailed = "TocsinReloadFailed"
        case restartPending = "TocsinRestartPending"
    }

    /// What is wrong, as the end of a sentence. It does not change while the problem lasts.
    package let title: String
    /// The title with everything known about it, such as since when, and what comes next.
    package let text: String
    /// Where to read what to do; `nil` if there is nothing to do.
    package let section: Section?

    /// - Parameter text: a sentence that says what the title says, and more.
    package init(_ title: String, text: String, see section: Section?) {
        self.title = title
        self.text = text
        self.section = section
    }

    /// - Parameter details: what is known beside the title.
    package init(_ title: String, _ details: String? = nil, see section: Section? = nil) {
        self.title = title
        text = details.map { "\(title): \($0)" } ?? title
        self.section = section
    }
}
