// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc
import Time

/// A one-shot timer on an event loop: fires once after each ``start(after:)`` unless stopped first. Releasing the timer
/// stops it.
package final class Timer {
    private let loop: EventLoop
    private let fire: () -> Void
    private var event: OpaquePointer?
    /// Counts starts and stops. In a ``LoopWorld``, a timer fires only if the count has not changed.
    private var starts = 0

    /// A stopped timer that calls `fire` on the loop.
    package init(on loop: EventLoop, fire: @escaping () -> Void) {
        self.loop = loop
        self.fire = fire
        guard loop.world == nil else { return }
        event = event_new(
            loop.base, -1, 0,
            { _, _, context in
                let timer = Unmanaged<Timer>.fromOpaque(context!).takeUnretainedValue()
                timer.loop.eventBegins()
                timer.fire()
            },
            Unmanaged.passUnretained(self).toOpaque())
    }

    /// A timer that calls `fire` on the loop after `delay`.
    package convenience init(on loop: EventLoop, after delay: Duration, fire: @escaping () -> Void) {
        self.init(on: loop, fire: fire)
        start(after: delay)
    }

    deinit { if let event { event_free(event) } }

    /// Starts or restarts the timer, to fire after `delay`.
    package func start(after delay: Duration) {
        loop.preconditionOnLoop()
        if let world = loop.world {
            starts += 1
            return world.schedule(after: delay) { [weak self, starts] in
                if let self, starts == self.starts { fire() }
            }
        }
        var interval = delay.timeval
        event_add(event, &interval)
    }

    /// Stops the timer.
    package func stop() {
        starts += 1
        if let event { event_del(event) }
    }
}

extension EventLoop {
    /// Suspends the task without blocking the loop. Returns early, without an error, if the task is cancelled.
    package func sleep(for delay: Duration, isolation: isolated (any Actor)? = #isolation) async {
        let sleeper = Sleeper(on: self)
        await withTaskCancellationHandler {
            // Captured, so that the closure runs on the caller's actor (SE-0420).
            _ = isolation
            await withCheckedContinuation { continuation in sleeper.start(continuation, delay: delay) }
        } onCancel: {
            let domain = LoopDomain(self)
            Task { await domain.run { _ in sleeper.wake() } }
        }
    }
}

/// One call of `sleep`, which cancellation may end early.
private final class Sleeper: @unchecked Sendable {
    // Unchecked: used on the loop only. The cancellation handler passes it on to the loop without using it.
    private let loop: EventLoop
    private var timer: Timer?
    private var continuation: CheckedContinuation<Void, Never>?
    private var ended = false

    init(on loop: EventLoop) { self.loop = loop }

    func start(_ continuation: CheckedContinuation<Void, Never>, delay: Duration) {
        guard !ended, !Task.isCancelled else { return continuation.resume() }
        self.continuation = continuation
        timer = Timer(on: loop, after: delay) { [unowned self] in wake() }
    }

    func wake() {
        ended = true
        timer?.stop()
        let waiting = continuation
        continuation = nil
        waiting?.resume()
    }
}

extension Duration {
    /// The duration as a C `timeval`, rounded up to a whole microsecond.
    var timeval: timeval {
        let nanoseconds = wholeNanoseconds
        return Glibc.timeval(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_usec: Int((nanoseconds % 1_000_000_000 + 999) / 1000))
    }
}
