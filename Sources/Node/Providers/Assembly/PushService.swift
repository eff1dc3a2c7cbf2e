// SPDX-License-Identifier: Apache-2.0

import TNP

/// What the node must know of the push service of a platform, apart from how to speak to it.
package struct PushService: Sendable {
    /// The name in metrics.
    package let name: String
    /// The name in metrics of the service's environment.
    package let environment: Environment
    /// The platform whose device tokens have the same form, and of which a sender may not know which one it is.
    package let otherEnvironment: Magic?
    /// Whether senders name the server, so that each server has a lane, a breaker and pauses of its own.
    package let hasLanePerServer: Bool
    /// Whether the node may authenticate with a certificate, whose end the service answers with silence.
    package let mayUseCertificate: Bool
    /// Makes a device token that no phone has, for a probe: the service looks at the credential first. `nil` if there is no
    /// service to ask before a sender names one.
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
