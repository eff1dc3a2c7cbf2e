// SPDX-License-Identifier: Apache-2.0

import CLibevent

/// Calls a handler on the loop whenever a descriptor can be read, or its other end is closed, until this object is
/// released. The descriptor must stay open for as long.
package final class ReadableDescriptor {
    private let loop: EventLoop
    private let isReadable: () -> Void
    private var event: OpaquePointer?

    /// - Parameter isReadable: reads from the descriptor; called again while something is left to read.
    package init(_ descriptor: Int32, on loop: EventLoop, isReadable: @escaping () -> Void) {
        loop.preconditionOnLoop()
        self.loop = loop
        self.isReadable = isReadable
        event = event_new(
            loop.base, descriptor, Int16(EV_READ | EV_PERSIST),
            { _, _, context in
                let descriptor = Unmanaged<ReadableDescriptor>.fromOpaque(context!).takeUnretainedValue()
                withExtendedLifetime(descriptor) { descriptor.isReadable() }
            }, Unmanaged.passUnretained(self).toOpaque())
        event_add(event, nil)
    }

    deinit { event_free(event) }
}
