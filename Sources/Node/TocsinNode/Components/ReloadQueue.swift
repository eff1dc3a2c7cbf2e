// SPDX-License-Identifier: Apache-2.0

/// Puts reloads in order: a new key holder takes time to read the files, and only one may do so at a time.
struct ReloadQueue {
    /// What is read again.
    enum Reload { case credentials, configuration }

    private var isReading = false
    /// What to reload afterwards.
    private var next: Reload?

    /// Takes a reload that is due.
    /// - Returns: what a key holder must read now; `nil` if another one is still reading.
    mutating func request(_ what: Reload) -> Reload? {
        guard !isReading else {
            // A reload of the configuration includes the credentials.
            if next != .configuration { next = what }
            return nil
        }
        isReading = true
        return what
    }

    /// Records that the key holder has finished reading.
    /// - Returns: the reload that has become due meanwhile, to be passed to ``request(_:)``; `nil` if there is none.
    mutating func ended() -> Reload? {
        isReading = false
        defer { next = nil }
        return next
    }
}
