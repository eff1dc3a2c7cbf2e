// SPDX-License-Identifier: Apache-2.0

/// Decides what is reloaded when: a key holder takes time to read, and reads once at a time.
struct ReloadQueue {
    /// What is read again.
    enum Reload { case credentials, configuration }

    private var isReading = false
    /// What to reload afterwards.
    private var next: Reload?

    /// A reload is due.
    /// - Returns: what a key holder reads now; `nil` if another one still reads.
    mutating func request(_ what: Reload) -> Reload? {
        guard !isReading else {
            // A configuration names the credentials.
            if next != .configuration { next = what }
            return nil
        }
        isReading = true
        return what
    }

    /// A key holder has read.
    /// - Returns: what has become due meanwhile; ``request(_:)`` it.
    mutating func ended() -> Reload? {
        isReading = false
        defer { next = nil }
        return next
    }
}
