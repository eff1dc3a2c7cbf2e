// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Admission
@testable import Time

@Suite(.tags(.computing)) struct EffortControlTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let minimum: UInt32 = 1 << 14
    private let maximum: UInt32 = 1 << 24

    /// A controller that requires `effort` at ``start``.
    private func makeControl(_ mode: EffortControl.Mode = .adaptive, effort: UInt32 = 0) -> EffortControl {
        var control = EffortControl(.init(mode: effort > 0 ? .always : mode, minimum: max(1, effort)), now: start)
        control.settings = .init(mode: mode)
        return control
    }

    // MARK: Rising

    @Test func `the default effort is zero at first, then from 16 384 to 16 777 216`() {
        let settings = EffortControl.Settings()
        #expect(settings.mode == .adaptive && settings.minimum == 16_384 && settings.maximum == 16_777_216)
        #expect(EffortControl(settings, now: start).effort == 0)
    }

    @Test func `the first pressure sets the minimum effort`() {
        var control = makeControl()
        control.count(refused: 100, paid: 1_000_000)
        control.step(to: start + .seconds(2))
        #expect(control.effort == minimum)
    }

    @Test func `under pressure the effort doubles at most every two seconds, up to the maximum`() {
        var control = makeControl()
        var now = start
        var efforts: [UInt32] = []
        for _ in 0..<60 {
            for _ in 0..<4 {
                now = now + .milliseconds(500)
                control.count(refused: 25, paid: control.effort)
                if control.step(to: now) { efforts.append(control.effort) }
            }
            #expect(efforts.count <= Int((now - start).milliseconds) / 2000)
        }
        #expect(efforts == (14...24).map { 1 << $0 })
    }

    @Test func `the effort rises to 1.5 times the mean payment if that is more than double the effort`() {
        // The effort paid by admitted submissions, and the factor by which the required effort rises.
        let steps: [(paid: UInt32, rise: Double)] = [(1, 2), (2, 3), (3, 4.5), (4, 6), (5, 6), (1000, 6)]
        for (paid, rise) in steps {
            var control = makeControl(effort: 100_000)
            control.count(admitted: 50, paid: 100_000 * paid)
            control.count(refused: 50, paid: 100_000)
            control.step(to: start + .seconds(2))
            #expect(control.effort == UInt32(100_000 * rise), "paid \(paid) times")
        }
    }

    @Test func `a few expensive proofs among many do not raise the effort further`() {
        var control = makeControl(effort: minimum)
        control.count(admitted: 90, paid: minimum)
        control.count(admitted: 10, paid: .max)
        control.count(refused: 50, paid: minimum)
        control.step(to: start + .seconds(2))
        #expect(control.effort == 2 * minimum)
    }

    @Test func `only refusals of senders that paid the required effort raise the effort`() {
        for (paid, expected) in [(0, minimum), (minimum - 1, minimum), (minimum, 2 * minimum)] {
            var control = makeControl(effort: minimum)
            control.count(refused: 1_000, paid: paid)
            control.step(to: start + .seconds(2))
            #expect(control.effort == expected, "paid \(paid)")
        }
    }

    @Test func `the effort rises from three refusals that are at least 5 % of arrivals`() {
        let cases: [(refused: Int, admitted: Int, rises: Bool)] = [
            (0, 100, false), (1, 0, false), (2, 0, false), (2, 10, false), (3, 0, true), (3, 57, true), (3, 58, false),
            (49, 951, false), (50, 950, true),
        ]
        for (refused, admitted, rises) in cases {
            var control = makeControl()
            control.count(admitted: admitted, paid: 0)
            control.count(refused: refused, paid: 0)
            let hasRisen = control.step(to: start + .seconds(2))
            #expect(hasRisen == rises, "\(refused) of \(refused + admitted)")
        }
    }

    @Test func `infrequent refusals are counted together`() {
        var control = makeControl()
        var risenAt: Int?
        for second in 1...30 where risenAt == nil {
            control.count(admitted: 2, paid: 0)
            if second.isMultiple(of: 4) { control.count(refused: 1, paid: 0) }
            if control.step(to: start + .seconds(second)) { risenAt = second }
        }
        #expect(risenAt == 12)
    }

    @Test func `a queue that is over half full and does not shrink raises the effort`() {
        let cases: [(queues: [Double], rises: Bool)] = [
            ([0.4, 0.5], false), ([0.4, 0.51], true), ([0.9, 0.9], true), ([0.9, 0.89], false), ([0, 1], true),
            ([1, 0.7], false), ([.nan, .nan], false), ([0, .infinity], true), ([0, -1], false),
        ]
        for (queues, rises) in cases {
            var control = makeControl()
            control.count(admitted: 100, paid: 0)
            control.step(to: start + .seconds(1), queue: queues[0])
            let hasRisen = control.step(to: start + .seconds(2), queue: queues[1])
            #expect(hasRisen == rises, "\(queues)")
        }
    }

    @Test func `a full queue of unpaid submissions does not raise the effort`() {
        var control = makeControl(effort: minimum)
        for second in 1...100 {
            control.count(admitted: 100, paid: 0)
            control.count(admitted: second % 30 == 0 ? 1 : 0, paid: minimum)
            control.step(to: start + .seconds(second), queue: 1)
            #expect(control.effort == minimum)
        }
        control.count(admitted: 3, paid: minimum)
        control.step(to: start + .seconds(200), queue: 1)
        #expect(control.effort == 2 * minimum)
    }

    // MARK: Falling

    @Test func `without pressure the effort falls by a third every 30 s, and below the minimum to zero`() {
        var control = makeControl(effort: 3 * minimum)
        var changes: [(Int, UInt32)] = []
        for second in 1...300 {
            control.count(admitted: 10, paid: control.effort)
            if control.step(to: start + .seconds(second), queue: 0.2) { changes.append((second, control.effort)) }
        }
        #expect(changes.map(\.0) == [30, 60, 90])
        #expect(changes.map(\.1) == [32_768, 21_845, 0])
    }

    @Test func `the effort falls when nothing arrives`() {
        var control = makeControl(effort: minimum)
        control.step(to: start + .seconds(29))
        #expect(control.effort == minimum)
        control.step(to: start + .seconds(30))
        #expect(control.effort == 0)
    }

    @Test func `the effort falls from the maximum to zero within ten minutes`() {
        var control = makeControl(effort: maximum)
        var second = 0
        while control.effort > 0, second < 10_000 {
            second += 1
            control.step(to: start + .seconds(second))
        }
        #expect(second <= 600)
    }

    @Test func `a queue that was over a quarter full holds the effort for 30 s`() {
        var control = makeControl(effort: minimum)
        for second in 1...59 {
            control.step(to: start + .seconds(second), queue: second == 1 ? 0.26 : 0)
            #expect(control.effort == minimum)
        }
        control.step(to: start + .seconds(60))
        #expect(control.effort == 0)
    }

    @Test func `between 1 % and 5 % of refusals the effort does not change`() {
        for (percent, holds) in [(0, false), (1, true), (2, true), (4, true)] {
            var control = makeControl(effort: 8 * minimum)
            var isChanged = false
            for second in 1...600 {
                control.count(admitted: 1_000 - 10 * percent, paid: control.effort)
                control.count(refused: 10 * percent, paid: control.effort)
                if control.step(to: start + .seconds(second), queue: 0.1) { isChanged = true }
            }
            #expect(isChanged != holds, "\(percent) %")
        }
    }

    @Test func `single refusals in any order neither raise nor hold the effort`() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            var control = makeControl(effort: 2 * minimum)
            var efforts = [control.effort]
            for second in 1...600 {
                for _ in 0..<random.below(200) {
                    control.count(isRefused: random.unit() < 0.003, paid: control.effort)
                }
                if control.step(to: start + .seconds(second), queue: random.unit() * 0.25) {
                    efforts.append(control.effort)
                }
            }
            #expect(efforts == [2 * minimum, 21_845, 0], "seed \(seed)")
        }
    }

    // MARK: Settings

    @Test func `mode off never requires effort`() {
        var control = makeControl(.off)
        for second in 1...100 {
            control.count(refused: 1_000, paid: .max)
            control.step(to: start + .seconds(second), queue: 1)
            #expect(control.effort == 0)
        }
    }

    @Test func `mode always requires the minimum, and more under pressure`() {
        var control = makeControl(.always)
        #expect(control.effort == minimum)
        control.step(to: start + .seconds(30))
        #expect(control.effort == minimum)
        control.count(refused: 3, paid: minimum)
        control.step(to: start + .seconds(32))
        #expect(control.effort == 2 * minimum)
        control.step(to: start + .seconds(62))
        #expect(control.effort == 21_845)
        control.step(to: start + .seconds(92))
        #expect(control.effort == minimum)
    }

    @Test func `new settings take effect immediately`() {
        let cases: [(effort: UInt32, settings: EffortControl.Settings, expected: UInt32)] = [
            (0, .init(mode: .adaptive, minimum: 10, maximum: 20), 0),
            (0, .init(mode: .always, minimum: 10, maximum: 20), 10),
            (15, .init(mode: .adaptive, minimum: 10, maximum: 20), 15),
            (5, .init(mode: .adaptive, minimum: 10, maximum: 20), 10),
            (25, .init(mode: .adaptive, minimum: 10, maximum: 20), 20),
            (25, .init(mode: .always, minimum: 10, maximum: 20), 20),
            (25, .init(mode: .off, minimum: 10, maximum: 20), 0),
        ]
        for (effort, settings, expected) in cases {
            var control = makeControl(effort: max(effort, 1))
            control.settings = .init(
                mode: effort == 0 ? .off : .always, minimum: max(effort, 1), maximum: max(effort, 1))
            #expect(control.effort == effort)
            control.settings = settings
            #expect(control.effort == expected, "\(effort) under \(settings)")
        }
    }

    @Test func `refusals counted under earlier settings do not raise the effort`() {
        var control = makeControl(effort: minimum)
        control.count(refused: 100, paid: minimum)
        control.settings = .init(minimum: 4 * minimum)
        control.step(to: start + .seconds(2))
        #expect(control.effort == 4 * minimum)
    }

    @Test func `setting the same settings again does not forget refusals`() {
        var control = makeControl()
        control.count(refused: 100, paid: 0)
        let settings = control.settings
        control.settings = settings
        control.step(to: start + .seconds(2))
        #expect(control.effort == minimum)
    }

    @Test func `the largest values do not overflow`() {
        var control = EffortControl(.init(mode: .always, minimum: .max, maximum: .max), now: start)
        #expect(control.effort == .max)
        control.count(admitted: 100, paid: .max)
        control.count(refused: 100, paid: .max)
        control.step(to: start + .seconds(2), queue: 1)
        #expect(control.effort == .max)
        control.settings = .init(mode: .adaptive, minimum: 1, maximum: .max)
        control.step(to: start + .seconds(32))
        #expect(control.effort == 2_863_311_530)
    }

    @Test func `a full tally counts no more arrivals`() {
        var tally = EffortControl.Tally(
            arrivals: .max - 1, refused: 0, paid: UInt64(UInt32.max - 1) * UInt64(UInt32.max))
        tally.add(isRefused: false, paid: .max)
        #expect(tally.arrivals == .max && tally.mean == UInt64(UInt32.max))
        tally.add(isRefused: true, paid: .max)
        tally.add(isRefused: false, paid: .max)
        #expect(tally.arrivals == .max && tally.refused == 0 && tally.mean == UInt64(UInt32.max))
        let refused = EffortControl.Tally(arrivals: .max, refused: .max)
        #expect(refused.isRefused(percent: 100) && refused.mean == 0)
    }

    // MARK: Time

    @Test func `an hour without a tick is one step`() {
        var control = makeControl(effort: 9 * minimum)
        control.step(to: start + .seconds(3600))
        #expect(control.effort == 6 * minimum)
        control.count(refused: 1_000_000, paid: 6 * minimum)
        control.step(to: start + .seconds(7200), queue: 1)
        #expect(control.effort == 12 * minimum)
    }

    @Test func `after the clock goes back, the controller continues from that time`() {
        var control = makeControl(effort: 9 * minimum)
        let past = MonotonicTime(nanoseconds: 5)
        control.step(to: past)
        control.step(to: past + .seconds(29))
        #expect(control.effort == 9 * minimum)
        control.step(to: past + .seconds(30))
        #expect(control.effort == 6 * minimum)
        control.count(refused: 3, paid: 6 * minimum)
        control.step(to: past)
        #expect(control.effort == 6 * minimum)
        control.step(to: past + .seconds(2))
        #expect(control.effort == 12 * minimum)
    }

    @Test func `under random load the effort stays within the settings and changes no faster than allowed`() {
        for seed in 1...100 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            var control = makeControl()
            var (now, changedAt) = (start, start)
            for _ in 0..<500 {
                let chance = random.unit()
                for _ in 0..<random.below(50) {
                    control.count(
                        isRefused: random.unit() < chance, paid: UInt32(truncatingIfNeeded: random.next() >> 36))
                }
                now = now + .milliseconds(random.below(4000))
                let before = control.effort
                let hasChanged = control.step(to: now, queue: random.unit())
                #expect(control.effort == 0 || (minimum...maximum).contains(control.effort))
                #expect(UInt64(control.effort) <= max(UInt64(minimum), 6 * UInt64(before)))
                guard hasChanged else { continue }
                #expect(now - changedAt >= (control.effort > before ? .seconds(2) : .seconds(30)))
                changedAt = now
            }
        }
    }

    // MARK: Closed loop

    @Test(arguments: [2, 10, 60, 400] as [Double])
    func `a flood on the unproven budget is priced out, and the effort falls after it ends`(strength: Double) {
        // 120 per minute, as for unproven device tokens. At the minimum effort the attacker can pay for `strength`
        // times that.
        var simulation = Simulation(
            shares: .budget, rate: 2, capacity: 300, honest: 0.1, strength: strength, now: start)
        simulation.run(600)
        #expect(simulation.control.effort == 0, "honest senders alone require no effort")

        simulation.isAttacked = true
        let rightEffort = strength * Double(minimum)
        let rising = simulation.run(60)
        #expect(Double(rising.highest) >= rightEffort)
        #expect(Double(rising.highest) <= rightEffort * 3)

        let lasting = simulation.run(1800)
        #expect(lasting.paidAttacks <= 2 * 1800)
        #expect(lasting.honestAdmitted >= lasting.honest * 9 / 10)
        // A bucket that has refilled hides for some time that the effort is too low.
        #expect(Double(lasting.lowest) >= rightEffort / 4 || strength == 2)
        #expect(Double(lasting.highest) <= rightEffort * 3)
        #expect(lasting.changes <= 1800 / 20)

        simulation.isAttacked = false
        simulation.run(600)
        #expect(simulation.control.effort == 0)
    }

    @Test(arguments: [3, 30, 300] as [Double])
    func `a flood that fills the queue is priced out, and the queue drains`(strength: Double) {
        var simulation = Simulation(
            shares: .queue, rate: 1000, capacity: 10_000, honest: 100, strength: strength, now: start)
        simulation.run(300)
        #expect(simulation.control.effort == 0, "honest senders alone require no effort")

        simulation.isAttacked = true
        let rightEffort = strength * Double(minimum)
        let rising = simulation.run(120)
        #expect(Double(rising.highest) >= rightEffort)
        #expect(Double(rising.highest) <= rightEffort * 3)

        let lasting = simulation.run(1800)
        #expect(lasting.paidAttacks <= 1000 * 1800)
        #expect(lasting.honestAdmitted >= lasting.honest * 99 / 100)
        #expect(Double(lasting.lowest) >= rightEffort / 4)
        #expect(Double(lasting.highest) <= rightEffort * 3)
        #expect(lasting.changes <= 1800 / 20)

        simulation.isAttacked = false
        simulation.run(600)
        #expect(simulation.control.effort == 0)
    }
}

extension EffortControl {
    /// Ticks, and checks that the result says whether the effort has changed.
    @discardableResult fileprivate mutating func step(to now: MonotonicTime, queue: Double = 0) -> Bool {
        let before = effort
        let hasChanged = tick(queue: queue, now: now)
        let after = effort
        #expect(hasChanged == (after != before))
        return hasChanged
    }

    fileprivate mutating func count(refused: Int, paid: UInt32) {
        for _ in 0..<refused { count(isRefused: true, paid: paid) }
    }

    fileprivate mutating func count(admitted: Int, paid: UInt32) {
        for _ in 0..<admitted { count(isRefused: false, paid: paid) }
    }
}

/// A simulation in steps of one second: an attacker and honest senders share a resource, and the controller sets the
/// effort.
private struct Simulation {
    enum Resource { case budget, queue }

    /// The results of a run.
    struct Summary {
        var lowest = UInt32.max
        var highest: UInt32 = 0
        var changes = 0
        /// The attacker's submissions while an effort was required.
        var paidAttacks = 0
        var (honest, honestAdmitted) = (0, 0)
    }

    var control: EffortControl
    var isAttacked = false
    private let shares: Resource
    /// The submissions served per second, and the burst of the budget or the length of the queue.
    private let (rate, capacity): (Double, Double)
    /// The average number of submissions of honest senders per second.
    private let honest: Double
    /// The hashes that the attacker can compute per second, and the submissions that it can send per second.
    private let (hashes, sendRate): (Double, Double)
    private var left: Double
    private var owed = 0.0
    private var now: MonotonicTime
    private var random = SplitMix64(seed: 4)

    init(shares: Resource, rate: Double, capacity: Double, honest: Double, strength: Double, now: MonotonicTime) {
        let settings = EffortControl.Settings()
        (self.shares, self.rate, self.capacity, self.honest, self.now) = (shares, rate, capacity, honest, now)
        (hashes, sendRate) = (strength * rate * Double(settings.minimum), 20_000)
        left = capacity
        control = EffortControl(settings, now: now)
    }

    @discardableResult mutating func run(_ seconds: Int) -> Summary {
        var summary = Summary()
        for _ in 0..<seconds {
            let effort = control.effort
            owed += isAttacked ? min(sendRate, effort == 0 ? .infinity : hashes / Double(effort)) : 0
            let attacks = Int(owed)
            owed -= Double(attacks)
            let honest = Int(self.honest * (0.5 + random.unit()) + random.unit())
            summary.paidAttacks += effort > 0 ? attacks : 0
            summary.honest += honest

            left = min(capacity, left + rate)
            for sender in (0..<attacks + honest).shuffled(using: &random) {
                let isRefused = left < 1
                left -= isRefused ? 0 : 1
                control.count(isRefused: isRefused, paid: effort)
                summary.honestAdmitted += sender >= attacks && !isRefused ? 1 : 0
            }
            now = now + .seconds(1)
            if control.step(to: now, queue: shares == .queue ? 1 - left / capacity : 0) { summary.changes += 1 }
            summary.lowest = min(summary.lowest, control.effort)
            summary.highest = max(summary.highest, control.effort)
        }
        return summary
    }
}
