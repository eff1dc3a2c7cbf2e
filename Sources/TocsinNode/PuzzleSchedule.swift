import Cryptography
import EventLoop
import TNP

/// Which seed is asked with, and until when: a new one takes over when the old one's time is over (PROTOCOL §5).
struct PuzzleSchedule {
    /// How long one seed is asked with. The one before it still counts as long again.
    static let lifetime = Duration.seconds(3600)

    private var seed: [UInt8]
    private(set) var changesAt: MonotonicTime

    /// - Parameter seed: 16 random bytes.
    init(seed: [UInt8], now: MonotonicTime) {
        self.seed = seed
        changesAt = now + Self.lifetime
    }

    /// What is announced at this moment. Nothing is asked: admission, which will ask, is not built yet.
    func puzzle(at now: MonotonicTime) -> Puzzle {
        let left = (changesAt - now) + Self.lifetime
        return Puzzle(seed: seed, effort: 0, lifetime: UInt32(left.components.seconds))
    }

    /// Takes a new seed.
    mutating func change(to seed: [UInt8], now: MonotonicTime) {
        self.seed = seed
        changesAt = now + Self.lifetime
    }
}
