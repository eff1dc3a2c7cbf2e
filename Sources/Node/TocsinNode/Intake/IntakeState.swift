// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import EventLoop
import Time

/// What ``Intake``, ``OutcomeReporter`` and the cluster share: `Admission`, its clock, and the submissions that
/// wait for an outcome.
final class IntakeState {
    var admission: Admission
    var waiting = WaitingSubmissions()
    var clock: GuardedClock
    /// The settings of admission; in a cluster, those of all nodes together.
    var settings: AdmissionSettings {
        didSet {
            applySettings()
            admission.forgetBadTokens()
        }
    }
    /// The number of nodes that share the rates.
    private let nodes: Int
    /// Whether this node of a cluster decides without the others.
    private var decidesAlone = false
    private let loop: EventLoop

    /// - Parameter nodes: the number of nodes that share the rates.
    init(_ admission: consuming Admission, _ clock: GuardedClock, nodes: Int, on loop: EventLoop) {
        settings = admission.settings
        self.admission = admission
        self.clock = clock
        self.nodes = nodes
        self.loop = loop
    }

    /// The current time by both clocks, as admission counts it.
    var reading: ClockReading { clock.reading(at: loop.now) }

    /// The terms of a submission that waits for the decision of a cluster's engine; `nil` for any other, e.g. a resend.
    func terms(of reply: Reply) -> Admission.Terms? {
        guard case .asking(let terms) = waiting[reply].state else { return nil }
        return terms
    }

    /// Sets whether this node decides without the others. It then applies its share of the rates, so that the sum over
    /// all nodes stays the same.
    func setDecidesAlone(_ alone: Bool) {
        guard alone != decidesAlone else { return }
        decidesAlone = alone
        applySettings()
    }

    private func applySettings() { admission.settings = decidesAlone ? settings.share(of: nodes) : settings }
}
