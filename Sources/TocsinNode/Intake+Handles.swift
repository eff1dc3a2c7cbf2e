// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import Handles
import Ingress
import TNP
import Time

/// Handles (PROTOCOL §11): submissions by handle, and requests of handles' owners.
extension Intake {
    /// Looks up the handle of a submission, and takes the submission through the gates after the circuit's.
    func take(_ submission: SubmissionByHandle, from connection: any SenderConnection) {
        guard let circuit = connection.circuit, let handles else { return }
        let start = loop.now
        do throws(Refusal) {
            try admission.checkCircuit(circuit, at: start)
        } catch {
            return refuse(submission.request, error, on: connection)
        }
        handles.find(submission.handle, at: reading.unix) { [unowned self] found in
            // A sender that has left sends the submission again.
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            switch found {
            case .entry(let entry): take(submission, entry, from: connection, on: circuit)
            case .unknown:
                // HTTP circuits are not charged: today's desktops ignore GONE.
                let isCharged = connection.senderProtocol == .tnp
                refuse(
                    submission.request,
                    Refusal(HandleEntry.unknown, goAway: isCharged ? admission.charge(circuit, at: loop.now) : nil),
                    on: connection)
            case .refused(let outcome): refuse(submission.request, Refusal(outcome), on: connection)
            }
        }
    }

    private func take(
        _ submission: SubmissionByHandle, _ entry: HandleEntry, from connection: any SenderConnection,
        on circuit: CircuitID
    ) {
        let start = loop.now
        let resolved: Submission
        guard let app = senders?.rules.tnp.app(named: Array(entry.record.app.utf8)[...]) else {
            // Not charged: the operator has removed the app.
            return refuse(submission.request, Refusal(Rejection(.unknownApp).outcome), on: connection)
        }
        do throws(Rejection) {
            resolved = try submission.resolved(to: entry.record.registration, of: app)
        } catch {
            return refuse(
                submission.request, Refusal(error.outcome, goAway: admission.charge(circuit, at: start)), on: connection
            )
        }
        let registration = entry.record.registration
        let use = HandleUse(
            handle: submission.handle,
            access: HandleAccess(owner: entry.record.owner, senderKeys: registration.senderKeys),
            isSaved: entry.isKnownToBeUsed(at: reading.unix),
            confirming: entry.state == .unconfirmed
                ? HandleBounds.Owner(
                    token: admission.name(of: registration, app: entry.record.app), key: entry.record.owner) : nil)
        do throws(Refusal) {
            try deliver(
                resolved, app: app.name, format: app.format, by: use, from: connection, on: circuit, at: start)
        } catch {
            refuse(resolved, app: app.name, error, on: connection)
        }
    }

    /// Performs what a handle's owner asks.
    func perform(_ request: HandleRequest, from connection: any SenderConnection) {
        guard let circuit = connection.circuit, handles != nil, let rules = senders?.rules.tnp else { return }
        do throws(Refusal) {
            let now = loop.now
            try admission.checkCircuit(circuit, at: now)
            if case .register(let name, _, let registration) = request.action {
                guard let named = rules.app(named: name[...]) else { throw Refusal(Rejection(.unknownApp).outcome) }
                let platforms = registration.isForPushEndpoint ? [registration.magic, .web] : [registration.magic]
                guard platforms.contains(where: { rules.routes.contains("\(named.name)/\($0.rawValue)") }) else {
                    throw Refusal(Rejection(.platformNotConfigured).outcome)
                }
                return register(request, registration, app: named.name, from: connection)
            }
        } catch {
            return refuse(request.request, error, on: connection)
        }
        perform(request, app: "", from: connection)
    }

    /// Performs a REGISTER, which costs something if it changes something.
    private func register(
        _ request: HandleRequest, _ registration: HandleRequest.Registration, app: String,
        from connection: any SenderConnection
    ) {
        handles?.isRepeated(request, app: app, at: reading.unix) { [unowned self] isRepeated in
            // A sender that has left sends the request again.
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            do throws(Refusal) {
                guard let isRepeated else { throw Refusal(.retry(.nodeBusy, after: 1000)) }
                if !isRepeated { try admission.admit(registration: request, on: circuit, at: loop.now) }
                perform(
                    request, app: app, isRepeated: isRepeated,
                    registers: admission.name(of: registration, app: app), from: connection)
            } catch {
                refuse(request.request, error, on: connection)
            }
        }
    }

    /// - Parameter token: the keyed hash of the device token that a REGISTER names.
    private func perform(
        _ request: HandleRequest, app: String, isRepeated: Bool = false, registers token: UInt64? = nil,
        from connection: any SenderConnection
    ) {
        handles?.perform(request, app: app, isRepeated: isRepeated, at: reading.unix) { [unowned self] answer in
            if let ended = answer.ended {
                // Who rings the phone by its device token again is not the owner of the handle.
                let (token, sender) = admission.unbind(ended.registration, app: ended.app, from: ended.owner)
                ledger?.unbind([token], from: sender)
            }
            if let token {
                if let handle = answer.handle { handles?.registered(handle, token: token) }
                if answer.outcome.kind != .retry {
                    admission.finish(registration: request)
                } else if !isRepeated {
                    admission.refundRegistration(at: loop.now)
                }
            }
            guard !connection.isClosed, let circuit = connection.circuit else { return }
            if let handle = answer.handle { return connection.registered(request.request, handle) }
            let outcome = answer.outcome
            // Only its owner can know a handle and its sequence.
            let isFault = outcome.reason == .notTheOwner || outcome.reason == .unknownHandle
            refuse(
                request.request, Refusal(outcome, goAway: isFault ? admission.charge(circuit, at: loop.now) : nil),
                on: connection)
        }
    }
}
