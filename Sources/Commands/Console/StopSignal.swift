// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc

/// Waits for SIGTERM or SIGINT, and reports SIGHUP. A second SIGTERM or SIGINT exits at once, with status 130.
package actor StopSignal {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var watches: [EventWatch] = []
    private var waiting: CheckedContinuation<Void, Never>?
    private var count = 0

    /// Creates a waiter that runs on this loop.
    package init(on loop: EventLoop) { self.loop = loop }

    /// Installs the signal handlers.
    /// - Parameter hangUp: called on SIGHUP, which otherwise terminates the process.
    package func arm(hangUp: (@Sendable () -> Void)? = nil) {
        watches = [SIGTERM, SIGINT].map { signal in
            EventWatch(signal: signal, on: loop) { [unowned self] in assumeIsolated { $0.received() } }
        }
        if let hangUp { watches.append(EventWatch(signal: SIGHUP, on: loop, hangUp)) }
    }

    /// Returns after the first SIGTERM or SIGINT.
    package func wait() async {
        if count == 0 { await withCheckedContinuation { waiting = $0 } }
    }

    private func received() {
        count += 1
        if count > 1 { _exit(130) }
        let continuation = waiting
        waiting = nil
        continuation?.resume()
    }
}
