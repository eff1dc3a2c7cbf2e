// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Tables

/// The tor circuits of a sender: one for each phone, so that a node cannot link phones by them, up to a bound. Beyond it,
/// phones share circuits.
package struct PhoneCircuits<Circuit: AnyObject> {
    /// The circuit of a phone.
    package enum Choice {
        case known(Circuit)
        /// The phone gets a new circuit: make one and ``insert(_:for:)`` it. Close the idle one that was evicted for
        /// it, if there is one.
        case new(inPlaceOf: Circuit?)
    }

    /// The largest number of circuits.
    package static var maximum: Int { 64 }

    /// By a hash of the phone's identifier: two phones with the same hash share a circuit.
    private var circuits = LRUTable<Int, Circuit>(maximum: Self.maximum)
    /// All circuits in a fixed order, for phones that share one; empty until it is needed after a change.
    private var shared: [Circuit] = []

    package init() {}

    package var all: [Circuit] { circuits.values }

    /// The circuit of a phone.
    /// - Parameter isIdle: whether a circuit has no submissions and may be evicted; `nil` if none may.
    package mutating func circuit(for phone: [UInt8], isIdle: ((Circuit) -> Bool)?) -> Choice {
        let key = Self.key(of: phone)
        switch circuits.slot(for: key, isIdle: isIdle) {
        case .known(let circuit): return .known(circuit)
        case .new(let idle): return .new(inPlaceOf: idle)
        case .full:
            if shared.isEmpty { shared = circuits.values }
            return .known(shared[Int(clamping: key.magnitude % UInt(clamping: shared.count))])
        }
    }

    private static func key(of phone: [UInt8]) -> Int {
        var hasher = Hasher()
        phone.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    /// Adds the new circuit of a phone.
    package mutating func insert(_ circuit: Circuit, for phone: [UInt8]) {
        circuits.insert(circuit, for: Self.key(of: phone))
        shared = []
    }

    package mutating func remove(_ phone: [UInt8]) {
        circuits.remove(Self.key(of: phone))
        shared = []
    }
}

extension Proxy {
    /// The same proxy, with a password that makes tor use another circuit (tor's `IsolateSOCKSAuth`).
    /// - Parameter isRequired: whether a dial fails if the proxy takes no password.
    func withNewCircuit(isRequired: Bool) -> Proxy {
        guard case .socks5(let endpoint, _) = self else { return self }
        return .socks5(
            endpoint,
            SOCKS5.Credentials(
                user: "tocsin", password: Hex.encode(SecureRandom.bytes(16)), isRequired: isRequired))
    }
}
