// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// In which of Apple's two environments a device token is at home: where one does not know it, the other is asked once
/// (Apple, "Handling notification responses from APNs": BadDeviceToken is also the word for the wrong environment).
struct EnvironmentSearch {
    /// The environment that is asked, where it is not that of the sender's magic.
    private var home: Magic?
    private var hasTurned = false

    /// Begins where the device token was accepted before, unless the search is under way.
    /// - Parameter known: nil: at home, or never accepted.
    mutating func begin(at known: Magic?) {
        if home == nil { home = known }
    }

    /// The environment to ask for an envelope of this magic.
    func environment(for magic: Magic) -> Magic { home ?? magic }

    /// An environment has answered.
    /// - Parameters:
    ///   - effect: what it says of the device token.
    ///   - mayTurn: whether the other one is served, and worth asking.
    /// - Returns: whether the other one is now to be asked.
    mutating func turns(
        after effect: Disposition.TokenEffect, from asked: Magic, mayTurn: (_ other: Magic) -> Bool
    ) -> Bool {
        switch effect {
        case .none:
            // The second one has not spoken: the next attempt asks both again.
            if hasTurned { reset() }
            return false
        case .unknownHere:
            guard !hasTurned, let other = asked.otherEnvironment, mayTurn(other) else { return false }
            hasTurned = true
            home = other
            return true
        case .accepted, .paused, .foreign, .gone: return false
        }
    }

    /// What was said counts for nothing: the next attempt begins with the sender's magic.
    mutating func reset() { self = EnvironmentSearch() }
}

extension Magic {
    /// The other one of Apple's two environments.
    fileprivate var otherEnvironment: Magic? {
        switch self {
        case .iOS: .iOSDev
        case .iOSDev: .iOS
        case .android: nil
        }
    }
}
