// SPDX-License-Identifier: Apache-2.0

import TNP

/// Remembers which handles were rung and ended in this run of the node. No I/O.
package struct HandleUse {
    /// The handles that were rung, and whose use is not saved yet.
    package private(set) var unsaved: Set<Handle> = []
    /// The handles that were ended: envelopes accepted before may still be delivered.
    private var ended: Set<Handle> = []
    private var bounds: HandleBounds
    private let maximum: Int

    /// - Parameter maximum: the number of phones, of owners, and of ended handles, that are remembered.
    package init(maximum: Int) {
        self.maximum = maximum
        bounds = HandleBounds(capacity: maximum)
    }

    /// The phone behind a handle was rung with DELIVERED.
    /// - Parameter owner: whose handle it is, if it was not confirmed; `nil` otherwise.
    package mutating func rang(_ handle: Handle, confirming owner: HandleBounds.Owner?) {
        if let owner, !bounds.confirms(handle, of: owner) { return }
        unsaved.insert(handle)
    }

    /// These uses are saved.
    package mutating func saved(_ handles: Set<Handle>) { unsaved.subtract(handles) }

    /// A handle was registered.
    /// - Parameter token: the keyed hash of the device token.
    /// - Returns: the oldest unconfirmed handle of the phone, which is to be dropped, if there are too many.
    package mutating func registered(_ handle: Handle, token: UInt64) -> Handle? {
        bounds.registered(handle, token: token).flatMap { unsaved.contains($0) ? nil : $0 }
    }

    /// An owner's request was answered.
    package mutating func performed(_ request: HandleRequest, _ answer: HandleStore.Answer) {
        guard let handle = answer.handle else { return }
        if answer.ended != nil {
            if ended.count >= maximum { ended.removeFirst() }
            ended.insert(handle)
        } else if case .register = request.action {
            ended.remove(handle)
        }
    }

    /// The node's answer about a handle that it does not know: RETRY if another node may know it, else GONE.
    /// - Parameter isAlone: whether the node could not ask the other nodes of the cluster.
    package func outcome(ofUnknown handle: Handle, isAlone: Bool) -> Outcome {
        isAlone && !hasEnded(handle) ? HandleEntry.unknownHere : HandleEntry.unknown
    }

    /// Whether the owner of a handle has ended it.
    package func hasEnded(_ handle: Handle) -> Bool { ended.contains(handle) }
}
