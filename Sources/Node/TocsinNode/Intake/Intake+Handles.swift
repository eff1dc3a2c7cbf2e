// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import Handles
import Ingress
import TNP
import Time

/// Handles (PROTOCOL §11): submissions by handle, and requests of handles' owners.
extension Intake {
    /// Checks the circuit of a submission, looks up its handle, and takes it through the other gates.
    /// - Parameter rules: those of the endpoint.
    func admit(
        _ submission: SubmissionByHandle, under rules: IngressSession.Rules, from connection: any SenderConnection
    ) {
        guard let circuit = connection.circuit, let handles else { return }
        let start = loop.now
        do throws(Refusal) {
            try shared.admission.checkCircuit(circuit, at: start)
        } catch {
            return refusals.report(error, to: submission.request, on: connection)
        }
        handles.find(submission.handle, at: shared.reading.unix) { [unowned self] found in
            // A sender that has left sends the submission again.
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            switch found {
            case .entry(let entry, let isAlone):
                admit(submission, entry, isAlone, under: rules, from: connection, on: circuit)
            case .unknown(let outcome):
                // HTTP circuits are not charged: the desktops that use HTTP go on sending after GONE.
                let isCharged = outcome.kind == .gone && connection.senderProtocol == .tnp
                refusals.report(
                    Refusal(
                        outcome, goAway: isCharged ? shared.admission.charge(circuit, at: loop.now) : nil),
                    to: submission.request, on: connection)
            case .refused(let outcome): refusals.report(Refusal(outcome), to: submission.request, on: connection)
            }
        }
    }

    private func admit(
        _ submission: SubmissionByHandle, _ entry: HandleEntry, _ isAlone: Bool, under rules: IngressSession.Rules,
        from connection: any SenderConnection, on circuit: CircuitID
    ) {
        let start = loop.now
        let resolved: Submission
        guard let app = rules.app(named: Array(entry.record.app.utf8)[...]) else {
            // Not charged: the operator has removed the app.
            return refusals.report(Refusal(Rejection(.unknownApp).outcome), to: submission.request, on: connection)
        }
        do throws(Rejection) {
            resolved = try submission.resolved(to: entry.record.registration, of: app)
        } catch {
            return refusals.report(
                Refusal(error.outcome, goAway: shared.admission.charge(circuit, at: start)), to: submission.request,
                on: connection)
        }
        let registration = entry.record.registration
        let sender = HandleSender(
            handle: submission.handle,
            access: HandleAccess(owner: entry.record.owner, senderKeys: registration.senderKeys),
            isLookedUpAlone: isAlone, isSaved: entry.isKnownToBeUsed(at: shared.reading.unix),
            confirming: entry.state == .unconfirmed
                ? HandleBounds.Owner(
                    token: shared.admission.name(of: registration, app: entry.record.app), key: entry.record.owner)
                : nil
        )
        do throws(Refusal) {
            try admitPastCircuit(
                resolved, app: app.name, format: app.format, by: sender, from: connection, on: circuit, at: start)
        } catch {
            refuse(resolved, app: app.name, error, on: connection)
        }
    }

    /// Performs what a handle's owner asks.
    /// - Parameter rules: those of the endpoint.
    func perform(
        _ request: HandleRequest, under rules: IngressSession.Rules, from connection: any SenderConnection
    ) {
        guard let circuit = connection.circuit, handles != nil else { return }
        do throws(Refusal) {
            let now = loop.now
            try shared.admission.checkCircuit(circuit, at: now)
            if case .register(let name, _, let registration) = request.action {
                guard let named = rules.app(named: name[...]) else { throw Refusal(Rejection(.unknownApp).outcome) }
                guard registration.platforms.contains(where: { rules.routes.contains("\(named.name)/\($0.rawValue)") })
                else {
                    throw Refusal(Rejection(.platformNotConfigured).outcome)
                }
                return register(request, registration, app: named.name, from: connection)
            }
        } catch {
            return refusals.report(error, to: request.request, on: connection)
        }
        perform(request, app: "", from: connection)
    }

    /// Performs a REGISTER. Admission charges it, unless it repeats the last accepted one.
    private func register(
        _ request: HandleRequest, _ registration: HandleRequest.Registration, app: String,
        from connection: any SenderConnection
    ) {
        handles?.isRepeated(request, app: app, at: shared.reading.unix) { [unowned self] isRepeated in
            // A sender that has left sends the request again.
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            do throws(Refusal) {
                guard let isRepeated else { throw Refusal(.retry(.nodeBusy, after: 1000)) }
                if !isRepeated { try shared.admission.admit(registration: request, on: circuit, at: loop.now) }
                perform(
                    request, app: app, isRepeated: isRepeated,
                    registers: shared.admission.name(of: registration, app: app), from: connection)
            } catch {
                refusals.report(error, to: request.request, on: connection)
            }
        }
    }

    /// - Parameter token: the keyed hash of the device token that a REGISTER names; `nil` for other requests.
    private func perform(
        _ request: HandleRequest, app: String, isRepeated: Bool = false, registers token: UInt64? = nil,
        from connection: any SenderConnection
    ) {
        handles?.perform(request, app: app, isRepeated: isRepeated, at: shared.reading.unix) { [unowned self] answer in
            if let ended = answer.ended {
                // Senders that later name the device token itself need not have the owner's key.
                let (token, sender) = shared.admission.unbind(ended.registration, app: ended.app, from: ended.owner)
                cluster?.unbind([token], from: sender)
            }
            if let token {
                if let handle = answer.handle { handles?.use.registered(handle, token: token) }
                if answer.outcome.kind != .retry {
                    shared.admission.finish(registration: request)
                } else if !isRepeated {
                    shared.admission.refundRegistration(at: loop.now)
                }
            }
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            if let handle = answer.handle { return connection.registered(request.request, handle) }
            let outcome = answer.outcome
            // A violation: an owner knows its handle and the sequence.
            let isFault = outcome.reason == .notTheOwner || outcome.reason == .unknownHandle
            refusals.report(
                Refusal(outcome, goAway: isFault ? shared.admission.charge(circuit, at: loop.now) : nil),
                to: request.request, on: connection)
        }
    }
}
