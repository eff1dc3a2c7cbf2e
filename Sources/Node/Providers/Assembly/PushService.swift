// SPDX-License-Identifier: Apache-2.0

import TNP

/// What the node must know of the push service of a platform, apart from how to speak to it.
package struct PushService: Sendable {
    /// The name in metrics.
    package let name: String
    /// The name in metrics of the service's environment.
    package let environment: Environment
    /// The platform of the service's other environment: its device tokens have the same form, so that a sender may name
    /// the wrong one. `nil` if there is none.
    package let otherEnvironment: Magic?
    /// Whether senders name the server, so that each server has a lane, a breaker and pauses of its own.
    package let hasLanePerServer: Bool
    /// Whether the node may authenticate with a certificate. Once it has expired, the service answers no request, as in
    /// an outage.
    package let mayUseCertificate: Bool
    /// Makes a device token that no phone has, for a probe: the service checks the credential first. `nil` for Web
    /// Push, whose servers the senders name.
    package let probeToken: (@Sendable () -> [UInt8])?

    package enum Environment: String, Sendable {
        case production, development
    }

    init(
        _ name: String, _ environment: Environment = .production, otherEnvironment: Magic? = nil,
        hasLanePerServer: Bool = false, mayUseCertificate: Bool = false,
        probeToken: (@Sendable () -> [UInt8])? = nil
    ) {
        self.name = name
        self.environment = environment
        self.otherEnvironment = otherEnvironment
        self.hasLanePerServer = hasLanePerServer
        self.mayUseCertificate = mayUseCertificate
        self.probeToken = probeToken
    }
}
