// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// Finds out which of Apple's two environments knows a device token: if one does not, the other is asked once (Apple,
/// "Handling notification responses from APNs": BadDeviceToken also means the wrong environment). Later attempts stay with
/// the other one: Apple would count each repeated refusal against the node.
struct EnvironmentSearch {
    /// The environment to ask; `nil` for the environment of the sender's magic.
    private var chosen: Magic?
    private var hasSwitched = false

    /// Sets the first environment to ask to the one that accepted the device token before, unless one is set already.
    /// - Parameter known: the environment that accepted the token; `nil` if that is the environment of the sender's
    ///   magic, or if no environment has accepted the token.
    mutating func begin(at known: Magic?) {
        if chosen == nil { chosen = known }
    }

    /// The environment to ask for an envelope with this magic.
    func environment(for magic: Magic) -> Magic { chosen ?? magic }

    /// Records the answer of an environment.
    /// - Parameters:
    ///   - effect: what the answer means for the device token.
    ///   - maySwitch: whether the other environment is served and worth asking.
    /// - Returns: whether to ask the other environment now.
    mutating func switches(
        after effect: Disposition.TokenEffect, from asked: Magic, maySwitch: (_ other: Magic) -> Bool
    ) -> Bool {
        switch effect {
        case .unknownInEnvironment:
            guard !hasSwitched, let other = asked.service.otherEnvironment, maySwitch(other) else { return false }
            hasSwitched = true
            chosen = other
            return true
        case .none, .accepted, .paused, .otherApp, .gone: return false
        }
    }

    /// Discards the answers: the next attempt starts with the environment of the sender's magic.
    mutating func reset() { self = EnvironmentSearch() }
}
