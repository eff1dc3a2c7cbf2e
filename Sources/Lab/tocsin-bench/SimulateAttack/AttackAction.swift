// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import World

/// What an attacker may do next, with what the protocol allows a stranger.
enum AttackAction: CustomStringConvertible {
    /// A phone that an attacker names.
    enum Target: CustomStringConvertible {
        /// The device token of an honest user's phone, which the attacker knows: bound to a sender key, but for the last one.
        case known(Int)
        /// A variant of a known device token: some name the same phone, some do not.
        case respelled(Int, Spelling)
        /// A device token that no phone has.
        case invented(Magic)
        /// A phone of the attacker's own.
        case own(Magic, Int)
        /// The handle of an honest user's phone, which only its owner's sender key may use; the attacker knows it.
        case knownHandle
        /// The handle that the node has given the attacker last.
        case ownHandle

        var description: String {
            switch self {
            case .known(let phone): "the known phone \(phone)"
            case .respelled(let phone, let spelling): "the known phone \(phone), \(spelling)"
            case .invented(let magic): "an invented \(magic.rawValue) token"
            case .own(let magic, let number): "his \(magic.rawValue) phone \(number)"
            case .knownHandle: "the known handle"
            case .ownHandle: "his handle"
            }
        }
    }

    /// A variant of a device token.
    enum Spelling: String, CaseIterable {
        case otherCase = "in other case"
        /// Of a push endpoint: the query that UnifiedPush adds.
        case withQuery = "with a query"
        case otherMagic = "under another magic"
    }

    /// The answers that a stranger can get from a push service for a phone of the stranger's own.
    enum Answer {
        case accepted, unregistered
        /// The token is another app's, or the subscription is restricted to another key (RFC 8292 §4.2).
        case forbidden
        /// A topic that one may not write to.
        case unauthorized
        case throttled
        /// ntfy: no phone has subscribed to the topic lately.
        case withoutSubscriber

        /// Those of a platform.
        static func all(of magic: Magic) -> [Answer] {
            switch magic {
            case .iOS, .iOSDev: [.accepted, .unregistered, .throttled]
            case .android: [.accepted, .unregistered, .forbidden, .throttled]
            case .web: [.accepted, .unregistered, .forbidden, .unauthorized, .throttled, .withoutSubscriber]
            }
        }

        /// Status and reason, if the phone is registered and the answer is none of the usual ones.
        func status(of magic: Magic) -> (code: Int, reason: String)? {
            switch self {
            case .accepted, .unregistered: nil
            case .forbidden: (403, "SENDER_ID_MISMATCH")
            case .unauthorized: (401, "")
            case .throttled: (429, magic == .android ? "QUOTA_EXCEEDED" : "TooManyRequests")
            case .withoutSubscriber: (507, "")
            }
        }
    }

    /// A request that is no submission.
    enum Nonsense: CaseIterable {
        case emptyLine, halfRequest, unknownPath, garbage
    }

    /// Opens connection 0 to 5 unless it is open; connections 2n and 2n + 1 share a circuit.
    case connect(Int)
    case disconnect(Int)
    case submit(Int, Target, isSigned: Bool, acceptsQueued: Bool, count: Int)
    /// Sends the last submission on this connection again.
    case resend(Int)
    case register(Int, Target, owner: Int, count: Int)
    /// Sends a REGISTER that an honest owner has signed, whose bytes the attacker has seen, from a new circuit each
    /// ``replaysOfCircuit``.
    case replayRegister(Int, count: Int)
    case rotate(Int, Target)
    case forget(Int)
    /// Claims to be the honest site.
    case claimSite(Int)
    case garbage(Int, UInt64)
    /// Sends a request as a desktop of today does, on a circuit.
    case http(Int, Target, count: Int)
    case nonsense(Int, Nonsense)
    /// Makes the honest site send to a device token: the attacker is one of its users.
    case askSite(Target, count: Int)
    /// Sets the push service's answer for one of the attacker's phones.
    case answer(Magic, Int, Answer)
    case wait(seconds: Int)

    /// The phones of honest users that the attacker knows.
    static let knownPhones = 4
    /// The attacker's own phones, of each platform.
    static let ownPhones = 3
    /// The connections over TNP, two on each circuit.
    static let connections = 6
    /// What each side of the budget for unproven device tokens allows at once is 300: a program stays below that, because
    /// whoever pays more may use it up (Docs/admission.md).
    static let maximumCost = 200

    /// Replays of a REGISTER from one circuit, of which a circuit's abuse account allows 20.
    static let replaysOfCircuit = 10

    /// The action's share of ``maximumCost``: requests, but the replays of a REGISTER from one circuit cost as much as one.
    var cost: Int {
        switch self {
        case .submit(_, _, _, _, let count), .register(_, _, _, let count), .http(_, _, let count),
            .askSite(_, let count):
            count
        // What was sent before costs no work.
        case .replayRegister(_, let count): max(1, count / Self.replaysOfCircuit)
        case .connect, .disconnect, .resend, .rotate, .forget, .claimSite, .garbage, .nonsense, .answer, .wait: 1
        }
    }

    var description: String {
        switch self {
        case .connect(let slot): "connects at \(slot)"
        case .disconnect(let slot): "disconnects at \(slot)"
        case .submit(let slot, let target, let isSigned, let queued, let count):
            "submits \(count) × to \(target) at \(slot)\(isSigned ? ", signed" : "")\(queued ? ", for the spool" : "")"
        case .resend(let slot): "sends the last submission at \(slot) again"
        case .register(let slot, let target, let owner, let count):
            "registers \(count) × \(target) at \(slot) as owner \(owner)"
        case .replayRegister(let slot, let count): "sends \(count) × an honest owner's REGISTER at \(slot)"
        case .rotate(let slot, let target): "rotates his handle to \(target) at \(slot)"
        case .forget(let slot): "forgets his handle at \(slot)"
        case .claimSite(let slot): "claims to be the site at \(slot)"
        case .garbage(let slot, _): "sends garbage at \(slot)"
        case .http(let circuit, let target, let count):
            "asks \(count) × over HTTP to ring \(target) on circuit \(circuit)"
        case .nonsense(let circuit, let nonsense): "sends \(nonsense) over HTTP on circuit \(circuit)"
        case .askSite(let target, let count): "makes the site ring \(target) \(count) ×"
        case .answer(let magic, let number, let answer): "his \(magic.rawValue) phone \(number) is \(answer)"
        case .wait(let seconds): "waits \(seconds) s"
        }
    }
}

extension AttackAction {
    /// A random program of up to 200 actions, and pauses between them; it ends early when its cost reaches ``maximumCost``.
    static func program(using random: inout SimulatedRandomNumbers) -> [AttackAction] {
        func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
        func some() -> Int { [1, 1, 1, 2, 3, 5, 8, 12, 20, 33][below(10)] }
        let magics = [Magic.iOS, .android, .web]
        // A program has few favourites: harm often takes the same action again and again.
        let kinds = (0..<2 + below(4)).map { _ in below(15) }
        let phone = below(knownPhones)
        let ownPhone = below(ownPhones)
        func target() -> Target {
            switch below(10) {
            case 0: .known(below(knownPhones))
            case 1: .known(phone)
            case 2, 3: .respelled(phone, Spelling.allCases[below(3)])
            case 4: .invented(magics[below(3)])
            case 5, 6: .own(magics[phone % magics.count], ownPhone)
            case 7: .own(magics[below(3)], below(ownPhones))
            case 8: .knownHandle
            default: .ownHandle
            }
        }
        func answer() -> AttackAction {
            let isFavourite = below(3) > 0
            let magic = isFavourite ? magics[phone % magics.count] : magics[below(magics.count)]
            let answers = Answer.all(of: magic)
            return .answer(magic, isFavourite ? ownPhone : below(ownPhones), answers[below(answers.count)])
        }
        let length = 10 + below(below(2) == 0 ? 30 : 191)
        var program: [AttackAction] = []
        var cost = 0
        while program.count < length {
            let slot = below(connections)
            let kind = below(3) == 0 ? below(15) : kinds[below(kinds.count)]
            let action: AttackAction =
                switch kind {
                case 0: .connect(slot)
                case 1: .disconnect(slot)
                case 2, 3:
                    .submit(slot, target(), isSigned: below(2) == 0, acceptsQueued: below(2) == 0, count: some())
                case 4: .resend(slot)
                case 5: .register(slot, target(), owner: below(40), count: some())
                case 6: .replayRegister(slot, count: 10 * some())
                case 7: .rotate(slot, target())
                case 8: .forget(slot)
                case 9: .claimSite(slot)
                case 10: .garbage(slot, random.next())
                case 11: .http(slot, target(), count: some())
                case 12: .nonsense(slot, Nonsense.allCases[below(4)])
                case 13: .askSite(target(), count: some())
                default: answer()
                }
            cost += action.cost
            guard cost <= maximumCost else { break }
            program.append(action)
            if below(6) == 0 { program.append(.wait(seconds: 1 + below(40))) }
        }
        return program
    }
}
