// SPDX-License-Identifier: Apache-2.0

import Time

/// The timer of a server's connection. It fires at the deadline of the connection's session, and when the peer has left
/// output unread for too long. It may fire early, since deadlines move while it runs.
package final class ConnectionTimer {
    private let readTimeout: Duration
    private var timer: Timer?
    private var firesAt: MonotonicTime?
    /// The deadline for the peer to read the output; `nil` if little enough of it is unread.
    private var unreadUntil: MonotonicTime?

    /// - Parameters:
    ///   - readTimeout: how long the peer may leave output unread.
    ///   - fire: receives whether output has been unread for that long.
    package init(on loop: EventLoop, readTimeout: Duration, fire: @escaping (_ isUnread: Bool) -> Void) {
        self.readTimeout = readTimeout
        timer = Timer(on: loop) { [unowned self] in
            firesAt = nil
            let isUnread = unreadUntil.map { $0 <= .now } ?? false
            if !isUnread { start(until: unreadUntil) }
            fire(isUnread)
        }
    }

    /// Makes the timer fire at `deadline`, unless it fires earlier.
    package func start(until deadline: MonotonicTime?) {
        guard let deadline, firesAt.map({ deadline < $0 }) ?? true else { return }
        firesAt = deadline
        timer?.start(after: deadline - .now + .milliseconds(1))
    }

    /// Starts the read timeout, unless it runs.
    package func outputIsUnread() {
        guard unreadUntil == nil else { return }
        unreadUntil = MonotonicTime.now + readTimeout
        start(until: unreadUntil)
    }

    /// Ends the read timeout.
    package func outputWasRead() { unreadUntil = nil }
}
