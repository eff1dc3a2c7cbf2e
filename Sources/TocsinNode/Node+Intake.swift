// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Delivery
import EventLoop
import Ingress
import Logging
import Providers
import TNP
import Time

/// A submission on its way through the gates.
struct Intake {
    let submission: Submission
    let app: String
    let format: EnvelopeFormat
    let connection: any SenderConnection

    init(_ submission: Submission, app: String, format: EnvelopeFormat, connection: any SenderConnection) {
        self.submission = submission
        self.app = app
        self.format = format
        self.connection = connection
    }

    var envelope: Envelope { submission.envelope }
    var route: Route { Route(app: app, magic: envelope.magic) }
}

/// The gates that a submission passes, in their order. What comes earlier costs the node less or tells a sender less:
///
/// 1. the format of its fields (`IngressSession`, `AppResolver`), before it comes here;
/// 2. its circuit: not blocked, and within its rate;
/// 3. a resend of an envelope that the node knows gets that one's outcome;
/// 4. platform, size and circuit breaker: the same for every device token;
/// 5. proof of work and signature: the same for every device token;
/// 6. room in the node: the same for every device token;
/// 7. limits, and what is known of the device token. A device token that the node serves and one that it has never seen
///    get the same refusal up to here, and here where a limit is reached (`Admission.admit`).
extension Node {
    func take(_ intake: Intake) {
        let connection = intake.connection
        guard let circuit = connection.circuit else { return }
        let start = MonotonicTime.now
        figures.record(start - connection.lastRead, in: .ingress)
        do throws(Refusal) {
            let moment = moment
            try admission.checkCircuit(circuit, at: moment.monotonic)
            if dispatch.isResend(intake.envelope, app: intake.app) { return repeatOutcome(intake) }
            let (ticket, origin) = try admit(intake, on: circuit, at: moment)
            figures.record(.now - start, in: .admission)
            submit(intake, ticket, from: origin)
        } catch {
            figures.record(.now - start, in: .admission)
            refuse(intake, error)
        }
    }

    private func admit(
        _ intake: Intake, on circuit: CircuitID, at moment: ClockReading
    ) throws(Refusal) -> (Admission.Ticket, Origin) {
        let (submission, app, senderProtocol) = (intake.submission, intake.app, intake.connection.senderProtocol)
        let acceptsQueued = submission.acceptQueued
        if let outcome = dispatch.refusal(of: intake.envelope, app: app, acceptsQueued: acceptsQueued) {
            // Its sender could have known that it is too large.
            let isFault = outcome.reason == .tooLarge && senderProtocol == .tnp
            throw Refusal(outcome, goAway: isFault ? admission.charge(circuit, at: moment.monotonic) : nil)
        }
        let paid = try admission.verify(submission, on: circuit, through: senderProtocol, at: moment.monotonic)
        let unknown = Origin(circuit: circuit, effort: paid)
        if let outcome = dispatch.capacityRefusal(
            of: intake.envelope, app: app, acceptsQueued: acceptsQueued, from: unknown)
        {
            admission.recordLackOfRoom(paid: paid, through: senderProtocol)
            throw Refusal(outcome)
        }
        let ticket = try admission.admit(
            submission, paid: paid, app: app, on: circuit, through: senderProtocol, at: moment)
        return (ticket, Origin(circuit: circuit, effort: paid, isProven: !ticket.isUnproven))
    }

    private func repeatOutcome(_ intake: Intake) {
        let request = intake.submission.request
        let reply = Reply(acceptsQueued: intake.submission.acceptQueued) { [weak connection = intake.connection] in
            connection?.isClosed == false
        } tell: { [weak connection = intake.connection] outcome, _ in
            connection?.finished(request, outcome)
        }
        dispatch.repeatOutcome(of: intake.envelope, to: reply)
    }

    private func submit(_ intake: Intake, _ ticket: Admission.Ticket, from origin: Origin) {
        let (request, route) = (intake.submission.request, intake.route)
        // Wanted also when its sender is gone: it says what became of the device token.
        let reply = Reply(acceptsQueued: intake.submission.acceptQueued) {
            [weak self, weak connection = intake.connection] outcome, reach in
            let connection = UnsafeTransfer(connection)
            self?.assumeIsolated { $0.tell(outcome, reach, of: ticket, route, request, on: connection.value) }
        }
        dispatch.submit(intake.envelope, app: intake.app, format: intake.format, from: origin, reply)
    }

    private func refuse(_ intake: Intake, _ refusal: Refusal) {
        let connection = intake.connection
        figures.refused(refusal, at: connection.senderProtocol.rawValue)
        if let outcome = refusal.outcome {
            figures.answered(outcome, of: intake.route, at: connection.senderProtocol.rawValue)
            history.count(outcome.kind, at: UnixTime.now)
        }
        connection.refused(intake.submission.request, refusal)
        if refusal.outcome?.reason == .connectionOverRate {
            connection.pauseReading(for: .milliseconds(Int64(refusal.outcome?.retryAfter ?? 0)))
        }
        if refusal.goAway != nil { recordAbuse() }
    }
}
