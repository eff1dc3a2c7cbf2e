// SPDX-License-Identifier: Apache-2.0

/// Follows tor handing out the onion's descriptor. It does so in rounds, to some ten directories each time, and again
/// every hour or two; a descriptor that was taken serves clients for hours, so a round that has begun takes nothing away.
/// Not every upload is answered: tor drops those that are under way when a newer descriptor follows. So one that is taken
/// is enough, and a round begins with the first upload after an answer.
struct DescriptorUploads: Equatable, Sendable {
    /// What has come of it.
    private(set) var state = OnionDescriptor.none
    /// The onion: whose descriptor is handed out. tor also tells of those it looks for.
    private(set) var address: OnionAddress?
    private var announced = 0
    private var refused = 0
    private var isTaken = false
    private var isAnswered = false

    mutating func observe(_ event: TorEvent) {
        switch event {
        case .bootstrapped: break
        case .uploading(let address):
            self.address = address
            if isAnswered { (announced, refused, isTaken, isAnswered) = (0, 0, false, false) }
            announced += 1
            if state != .published { state = .uploading }
        case .uploaded(let address):
            guard address == self.address else { return }
            isAnswered = true
            isTaken = true
            state = .published
        case .refused(let address):
            guard address == self.address else { return }
            isAnswered = true
            refused += 1
            if !isTaken, refused >= announced { state = .failed }
        }
    }
}
