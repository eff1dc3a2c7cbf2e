// SPDX-License-Identifier: Apache-2.0

/// What this node knows of the right to deliver an envelope, which one node of a cluster has.
enum EnvelopeClaim {
    /// This node does not have the right; the last `timesElsewhere` times that it asked, another node had it.
    case open(timesElsewhere: Int = 0)
    /// This node has the right, by a claim under the lease of this generation; `nil` if the node decided without the
    /// others.
    case held(generation: Int?)

    /// Whether the node was granted the right; ``DeliveryCore/holdsClaim(_:_:)`` says whether it lasts.
    var isHeld: Bool {
        if case .held = self { true } else { false }
    }
}
