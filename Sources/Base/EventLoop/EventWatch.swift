// SPDX-License-Identifier: Apache-2.0

import CLibevent

/// Calls a handler on the loop at each event of one kind, until this object is released.
package final class EventWatch {
    private let loop: EventLoop
    private let handler: () -> Void
    private var event: OpaquePointer?

    /// Watches a descriptor, which must stay open for as long.
    /// - Parameter handler: called whenever the descriptor can be read or its other end is closed; called again while
    ///   something is left to read.
    package convenience init(readable descriptor: Int32, on loop: EventLoop, _ handler: @escaping () -> Void) {
        self.init(descriptor, EV_READ, loop, handler)
    }

    /// Watches a signal to the process. libevent handles signals on only one loop per process: use the same loop for all
    /// of them.
    package convenience init(signal: Int32, on loop: EventLoop, _ handler: @escaping () -> Void) {
        self.init(signal, EV_SIGNAL, loop, handler)
    }

    private init(_ number: Int32, _ kind: Int32, _ loop: EventLoop, _ handler: @escaping () -> Void) {
        loop.preconditionOnLoop()
        self.loop = loop
        self.handler = handler
        event = event_new(
            loop.base, number, Int16(kind | EV_PERSIST),
            { _, _, context in
                let watch = Unmanaged<EventWatch>.fromOpaque(context!).takeUnretainedValue()
                withExtendedLifetime(watch) { watch.handler() }
            }, Unmanaged.passUnretained(self).toOpaque())
        event_add(event, nil)
    }

    deinit { event_free(event) }
}
