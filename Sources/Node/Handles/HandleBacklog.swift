// SPDX-License-Identifier: Apache-2.0

import DequeModule
import TNP
import Time

/// Remembers which handles the engine of a cluster may lack. No I/O and no clock.
package struct HandleBacklog {
    /// Maximum number of changes that are remembered. The engine learns of further ones when their handles are next
    /// used.
    package static let maximumUnsent = 10_000
    /// How long a change that the engine has is remembered: a replica that becomes the primary may lack it.
    package static let replicaDelay = Duration.seconds(60)

    /// The name of the last row given to an engine that may lack all rows, empty at first; `nil` if it has all.
    package private(set) var position: [UInt8]?
    /// Handles that were changed without the engine.
    private var unsent: Set<Handle> = []
    /// Handles that were changed, and when the engine had the change.
    private var sent: Deque<(handle: Handle, at: MonotonicTime)> = []

    package init() {}

    /// Whether the engine has all handles.
    package var isEmpty: Bool { position == nil && unsent.isEmpty }

    /// A handle was changed without the engine.
    package mutating func changed(_ handle: Handle) {
        if unsent.count < Self.maximumUnsent { unsent.insert(handle) }
    }

    /// The engine has learnt of a change.
    package mutating func told(_ handle: Handle, now: MonotonicTime) {
        while let first = sent.first, now - first.at > Self.replicaDelay || sent.count >= Self.maximumUnsent {
            sent.removeFirst()
        }
        sent.append((handle, now))
    }

    /// The engine can be used again.
    /// - Parameter isKnown: whether it is the one that has all handles of this node.
    package mutating func engineReturned(isKnown: Bool, now: MonotonicTime) {
        position = isKnown ? nil : []
        for (handle, time) in sent where now - time <= Self.replicaDelay { unsent.insert(handle) }
        sent = []
    }

    /// Up to `count` handles to give to the engine.
    package func next(_ count: Int) -> [Handle] { Array(unsent.prefix(count)) }

    /// A handle is being given to the engine. Call it before, because the handle may change again meanwhile.
    package mutating func giving(_ handle: Handle) { unsent.remove(handle) }

    /// The engine did not get a handle.
    package mutating func takeBack(_ handle: Handle) { unsent.insert(handle) }

    /// The rows after a position were given to the engine.
    /// - Parameter last: the last of them; `nil` if there was none.
    /// - Returns: whether the engine is still the same; it may have returned with another epoch meanwhile.
    package mutating func gave(after former: [UInt8], last: [UInt8]?) -> Bool {
        guard position == former else { return false }
        position = last
        return true
    }
}
