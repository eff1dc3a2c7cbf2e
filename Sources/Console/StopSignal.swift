// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc

/// Waits for SIGTERM or SIGINT, and tells of SIGHUP. A second signal to stop ends the process at once.
package actor StopSignal {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var watches: [SignalHandler] = []
    private var waiting: CheckedContinuation<Void, Never>?
    private var count = 0

    package init(on loop: EventLoop) { self.loop = loop }

    /// Starts to listen for the signals.
    /// - Parameter hangUp: is called at SIGHUP, which else ends the process.
    package func arm(hangUp: (@Sendable () -> Void)? = nil) {
        watches = [SIGTERM, SIGINT].map { signal in
            SignalHandler(signal, on: loop) { [unowned self] in assumeIsolated { $0.received() } }
        }
        if let hangUp { watches.append(SignalHandler(SIGHUP, on: loop, received: hangUp)) }
    }

    /// Returns when a signal has come.
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
