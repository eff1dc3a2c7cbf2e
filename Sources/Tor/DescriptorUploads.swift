/// Follows tor handing out the onion's descriptor. It does so in rounds, to some ten directories each time, and again
/// every hour or two; a descriptor that was taken serves clients for hours, so a round that has begun takes nothing away.
struct DescriptorUploads: Equatable, Sendable {
    /// What has come of it.
    private(set) var state = OnionDescriptor.none
    /// The onion: whose descriptor is handed out. tor also tells of those it looks for.
    private(set) var address: OnionAddress?
    private var announced = 0
    private var taken = 0
    private var refused = 0

    mutating func observe(_ event: TorEvent) {
        switch event {
        case .bootstrapped: break
        case .uploading(let address):
            self.address = address
            if taken + refused >= announced { (announced, taken, refused) = (0, 0, 0) }
            announced += 1
            if state != .published { state = .uploading }
        case .uploaded(let address):
            guard address == self.address else { return }
            taken += 1
            endRound()
        case .refused(let address):
            guard address == self.address else { return }
            refused += 1
            endRound()
        }
    }

    private mutating func endRound() {
        guard taken + refused >= announced else { return }
        state = taken > 0 ? .published : .failed
    }
}
