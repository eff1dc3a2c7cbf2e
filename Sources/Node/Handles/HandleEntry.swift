// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// A handle in the store: what stands behind it, and whether it is in use. Decides what a request of its owner changes
/// (PROTOCOL §11). Reads no clock.
package struct HandleEntry: Equatable, Sendable, Redacted {
    /// What the node knows about a handle.
    package struct Record: Equatable, Sendable, Redacted {
        /// The name of the app.
        package var app: String
        /// The phone, and who may ring it. A forgotten handle has no device token.
        package var registration: HandleRequest.Registration
        /// The Ed25519 public key of the owner, 32 bytes.
        package var owner: [UInt8]
        /// The sequence of the owner's last accepted request.
        package var sequence: UInt64
        /// The hash of the owner's last accepted request.
        package var lastRequest: Digest256
    }

    /// Whether the handle is in use. The raw values are stored; never change them.
    package enum State: UInt8, Sendable {
        /// Registered, and not rung with DELIVERED since.
        case unconfirmed = 0
        /// In use.
        case confirmed = 1
        /// Ended by its owner. Kept, so that a replayed request does not revive it.
        case forgotten = 2
    }

    /// What a request changes.
    package enum Change: Equatable {
        /// Nothing; the sender gets this outcome.
        case none(Outcome)
        /// Store this entry; the sender gets DELIVERED.
        case store(HandleEntry)
    }

    /// What stands behind the handle.
    package var record: Record
    package var state: State
    /// Unix time in seconds: of the registration, while it is unconfirmed; else of the last use, rounded down to a day.
    package var time: Int64

    /// Seconds after a REGISTER within which the phone must be rung with DELIVERED.
    package static let confirmationTime: Int64 = 600
    static let secondsPerDay: Int64 = 86_400

    /// The outcome for a handle that the node does not know.
    package static let unknown = Outcome(.gone, reason: .unknownHandle)
    /// The outcome for a handle that the node does not know, but another node of its cluster may, which it cannot ask: GONE
    /// would end a pairing that works.
    package static let unknownHere = Outcome.retry(
        .nodeBusy, after: 5000, text: "this node does not know this handle, and cannot ask the other nodes now")

    /// Whether the node drops the entry.
    /// - Parameters:
    ///   - forgetDays: days without use after which a handle is forgotten.
    ///   - now: Unix time in seconds.
    func isExpired(forgetDays: Int, at now: Int64) -> Bool {
        time <= (state == .unconfirmed ? now - Self.confirmationTime : Self.oldestUse(forgetDays: forgetDays, at: now))
    }

    /// Whether a sender can use the handle.
    /// - Parameters:
    ///   - isInUse: whether the handle is known to be in use, although the store does not know it yet.
    ///   - now: Unix time in seconds.
    package func isUsable(_ limits: HandleStore.Limits, isInUse: Bool, at now: Int64) -> Bool {
        state != .forgotten && (isInUse || !isExpired(forgetDays: limits.forgetDays, at: now))
    }

    /// The latest ``time`` of a handle that is forgotten for lack of use. A day more than `forgetDays` ago, because the
    /// time is rounded down.
    static func oldestUse(forgetDays: Int, at now: Int64) -> Int64 { now - Int64(forgetDays + 1) * secondsPerDay }

    /// Whether another delivery changes nothing in the store.
    /// - Parameter now: Unix time in seconds.
    package func isKnownToBeUsed(at now: Int64) -> Bool { state == .confirmed && time >= Self.day(of: now) }

    /// Whether this is newer than the entry of another node: the owner's last request counts, then a use.
    func isNewer(than other: HandleEntry) -> Bool {
        (record.sequence, state.rawValue, time) > (other.record.sequence, other.state.rawValue, other.time)
    }

    /// Decides about a request.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - present: the entry of the handle; `nil` if there is none, or it has expired.
    ///   - now: Unix time in seconds.
    package static func change(_ request: HandleRequest, app: String, _ present: HandleEntry?, at now: Int64) -> Change
    {
        switch request.action {
        case .register(_, let owner, let registration):
            let record = Record(
                app: app, registration: registration, owner: owner, sequence: request.sequence,
                lastRequest: request.hash)
            guard let present else { return .store(HandleEntry(record: record, state: .unconfirmed, time: now)) }
            if let outcome = present.refusal(of: request) { return .none(outcome) }
            switch present.state {
            // The holder of an old pairing must not restore the old device token.
            case _ where present.hasRotated(from: registration): return .none(.rejected(.notTheOwner))
            case .confirmed: return .store(HandleEntry(record: record, state: .confirmed, time: present.time))
            case .unconfirmed, .forgotten:
                return .store(HandleEntry(record: record, state: .unconfirmed, time: now))
            }
        case .rotate(_, let registration):
            guard var changed = present, changed.state != .forgotten else { return .none(unknown) }
            if let outcome = changed.refusal(of: request) { return .none(outcome) }
            changed.accept(request, registration)
            return .store(changed)
        case .forget:
            guard var changed = present else { return .none(unknown) }
            if let outcome = changed.refusal(of: request) { return .none(outcome) }
            guard changed.state != .forgotten else { return .none(unknown) }
            changed.accept(
                request, HandleRequest.Registration(magic: changed.record.registration.magic, deviceToken: []))
            changed.state = .forgotten
            changed.time = day(of: now)
            return .store(changed)
        }
    }

    /// The outcome of a request that changes nothing, because it is not the owner's or not newer than the last one;
    /// `nil` if the request is valid.
    private func refusal(of request: HandleRequest) -> Outcome? {
        guard request.isSigned(by: record.owner) else { return .rejected(.notTheOwner) }
        // A repeated request gets the same answer again.
        if request.hash == record.lastRequest { return .delivered() }
        return request.sequence > record.sequence ? nil : .rejected(.notTheOwner)
    }

    private func hasRotated(from registration: HandleRequest.Registration) -> Bool {
        state != .forgotten && record.registration.phone != registration.phone
    }

    private mutating func accept(_ request: HandleRequest, _ registration: HandleRequest.Registration) {
        record.registration = registration
        record.sequence = request.sequence
        record.lastRequest = request.hash
    }

    /// The beginning of the day, so that the store does not show when a phone was rung.
    package static func day(of time: Int64) -> Int64 { time - time % secondsPerDay }
}
