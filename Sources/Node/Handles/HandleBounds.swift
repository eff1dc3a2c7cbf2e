// SPDX-License-Identifier: Apache-2.0

import TNP

/// Bounds how many handles stand for one phone (PROTOCOL §11), so that nobody fills a node's store with handles of a
/// few phones. No owner can cost another one a confirmed handle. Of too many unconfirmed handles, whose owners have
/// proved nothing, the oldest is dropped. Counts what one run of the node has seen. Bounded: when there are too many
/// phones or owners, it forgets all their counts.
package struct HandleBounds {
    /// The most unconfirmed handles of a phone, and the most handles of a phone that a run confirms for one owner.
    package static let (maximumUnconfirmed, maximumConfirmed) = (8, 8)

    /// Who has confirmed a handle: the keyed hash of the device token, and the owner's public key.
    package struct Owner: Hashable, Sendable {
        let token: UInt64
        let key: [UInt8]

        /// - Parameters:
        ///   - token: the keyed hash of the device token.
        ///   - key: the owner's public key.
        package init(token: UInt64, key: [UInt8]) { (self.token, self.key) = (token, key) }
    }

    private let capacity: Int
    private var unconfirmed: [UInt64: [Handle]] = [:]
    private var confirmed: [Owner: Set<Handle>] = [:]

    /// - Parameter capacity: the maximum number of phones, and of owners, that are counted.
    package init(capacity: Int) { self.capacity = capacity }

    /// Records a REGISTER.
    /// - Parameter token: the keyed hash of the device token.
    /// - Returns: the handle to drop if it is unconfirmed; `nil` if there is room.
    package mutating func registered(_ handle: Handle, token: UInt64) -> Handle? {
        if unconfirmed.count >= capacity, unconfirmed[token] == nil { unconfirmed.removeAll() }
        var handles = unconfirmed[token] ?? []
        handles.removeAll { $0 == handle }
        handles.append(handle)
        let oldest = handles.count > Self.maximumUnconfirmed ? handles.removeFirst() : nil
        unconfirmed[token] = handles
        return oldest
    }

    /// Records that a delivery confirms a handle.
    /// - Returns: whether its owner may have one more.
    package mutating func confirms(_ handle: Handle, of owner: Owner) -> Bool {
        if confirmed.count >= capacity, confirmed[owner] == nil { confirmed.removeAll() }
        var handles = confirmed[owner] ?? []
        guard handles.contains(handle) || handles.count < Self.maximumConfirmed else { return false }
        handles.insert(handle)
        confirmed[owner] = handles
        unconfirmed[owner.token]?.removeAll { $0 == handle }
        return true
    }
}
