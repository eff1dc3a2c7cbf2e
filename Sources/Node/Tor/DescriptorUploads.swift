// SPDX-License-Identifier: Apache-2.0

/// Tracks tor's uploads of one onion's descriptor. tor uploads in rounds, every hour or two, to up to eight directories
/// for each of two time periods (rend-spec-v3). A stored descriptor serves clients for hours, so a new round does not
/// reset the published state. Not every upload gets a response: tor drops pending uploads when a newer descriptor
/// follows. One accepted upload is therefore enough, and a round begins with the first upload after a response.
struct DescriptorUploads: Equatable, Sendable {
    /// The descriptor's state after all observed events.
    private(set) var state = OnionDescriptor.none
    private var announced = 0
    private var refused = 0
    private var isTaken = false
    private var isAnswered = false

    mutating func observe(_ event: TorEvent) {
        switch event {
        case .bootstrapped: break
        case .uploading:
            if isAnswered { (announced, refused, isTaken, isAnswered) = (0, 0, false, false) }
            announced += 1
            if state != .published { state = .uploading }
        case .uploaded:
            isAnswered = true
            isTaken = true
            state = .published
        case .failed:
            isAnswered = true
            refused += 1
            if !isTaken, refused >= announced { state = .failed }
        }
    }
}
