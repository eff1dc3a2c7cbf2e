// SPDX-License-Identifier: Apache-2.0

import CLibevent

/// Handles a signal to the process on the loop, until this object is released. libevent handles signals on only one
/// loop per process: use the same loop for all of them.
package final class SignalHandler {
    private let loop: EventLoop
    private let received: () -> Void
    private var event: OpaquePointer?

    /// Calls `received` on the loop whenever the process receives `signal`.
    package init(_ signal: Int32, on loop: EventLoop, received: @escaping () -> Void) {
        loop.preconditionOnLoop()
        self.loop = loop
        self.received = received
        event = event_new(
            loop.base, signal, Int16(EV_SIGNAL | EV_PERSIST),
            { _, _, context in Unmanaged<SignalHandler>.fromOpaque(context!).takeUnretainedValue().received() },
            Unmanaged.passUnretained(self).toOpaque())
        event_add(event, nil)
    }

    deinit { event_free(event) }
}
