// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

@testable import Admission
@testable import Archive
@testable import Handles
@testable import Ingress
@testable import NodeConfiguration

/// The owners of handles, and a stranger who repeats and changes what they have sent: frames through a session, decided
/// by the rule of the store, with its sealed rows.
func runOwners(_ input: inout FuzzInput) {
    var stage = OwnersStage()
    while !input.isEmpty {
        let choice = input.byte()
        let (owner, phone) = (Int(choice >> 3 & 1), Int(choice >> 4 & 3))
        switch choice & 7 {
        case 0:
            stage.send(
                .register(app: [], owner: OwnersStage.owners[owner].publicKey, OwnersStage.phones[phone]), owner, &input
            )
        case 1:
            if let handle = stage.handle(input.byte()) {
                stage.send(.rotate(handle, OwnersStage.phones[phone]), owner, &input)
            }
        case 2: if let handle = stage.handle(input.byte()) { stage.send(.forget(handle), owner, &input) }
        case 3: stage.sendAgain(input.byte())
        case 4: stage.sendChanged(input.byte(), at: Int(input.byte()) << 8 | Int(input.byte()), by: input.byte())
        case 5: stage.pass(Int64(input.byte()) << (choice >> 3))
        case 6: if let handle = stage.handle(input.byte()) { stage.rang(handle) }
        default: stage.pass(1)
        }
    }
}

private struct OwnersStage {
    static let owners = [1, 2].map { Ed25519.PrivateKey(seed: [UInt8](repeating: $0, count: 32))! }
    static let phones = ["a", "b", "c", "d"].map {
        HandleRequest.Registration(magic: .android, deviceToken: Array("token-\($0)".utf8))
    }
    private static let keys = HandleKeys(SecretBytes([UInt8](repeating: 3, count: 32)))
    private static let forgetDays = 30
    private static let app = "bisq"

    private struct Row {
        var sealed: [UInt8]
        var state: HandleEntry.State
        var time: Int64
    }

    private var rows: [Handle: Row] = [:]
    private var session: IngressSession
    private var clock = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private var wall: Int64 = 1_800_000_000
    private var decoder = FrameDecoder(maximumLength: 1 << 20)
    private var lastNumber: UInt32 = 0
    /// Each request so far, without its number, and the owner who signed it.
    private var sent: [(payload: [UInt8], type: [UInt8], owner: Int)] = []
    private var handles: [Handle] = []

    init() {
        let rules = IngressSession.Rules(
            circuitIDs: false, onions: [.none], maximumFrame: 8192, maximumInFlight: 8, handshakeTimeout: .seconds(30),
            idleTimeout: .seconds(1 << 40), frameTimeout: .seconds(30), readTimeout: .seconds(30),
            control: Rate(burst: 1_000_000, perMinute: 1_000_000), apps: [(name: Self.app, format: .pipe)],
            routes: ["bisq/android"], siteMode: .off, keepsHandles: true)
        session = IngressSession(rules: rules, now: clock)
        var hello: [UInt8] = []
        hello.append(Hello(agent: ""))
        _ = receive(hello)
    }

    private mutating func receive(_ bytes: [UInt8]) -> (requests: [HandleRequest], effects: IngressSession.Effects) {
        var (requests, effects) = (IngressSession.Requests(), IngressSession.Effects())
        session.received(
            bytes.span.bytes, now: clock,
            welcome: { _ in
                Welcome(
                    maximumFrame: 8192, maximumInFlight: 8, idleTimeout: 600, serverTime: 1_800_000_000_000,
                    puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600), routes: [])
            }, identify: { _, _ in nil }, &requests, &effects)
        return (requests.handleRequests, effects)
    }

    func handle(_ choice: UInt8) -> Handle? { handles.isEmpty ? nil : handles[Int(choice) % handles.count] }

    /// An owner sends a request with a sequence that the input chooses.
    mutating func send(_ action: HandleRequest.Action, _ owner: Int, _ input: inout FuzzInput) {
        let request = HandleRequest(action, sequence: UInt64(input.byte()), at: .none, by: Self.owners[owner])
        var frame: [UInt8] = []
        frame.append(request)
        sent.append((Array(frame[Self.payloadOffset...]), Array(frame[..<Self.numberOffset]), owner))
        _ = deliver(sent[sent.count - 1].payload, sent[sent.count - 1].type, by: owner)
    }

    /// A frame is length u32 and type u8, then the number u32 of the request (PROTOCOL §2).
    private static let (numberOffset, payloadOffset) = (5, 9)

    /// A stranger repeats a request.
    mutating func sendAgain(_ choice: UInt8) {
        guard !sent.isEmpty else { return }
        let again = sent[Int(choice) % sent.count]
        _ = deliver(again.payload, again.type, by: again.owner)
    }

    /// A stranger changes one byte of a request, and sends it.
    mutating func sendChanged(_ choice: UInt8, at position: Int, by difference: UInt8) {
        guard !sent.isEmpty, difference != 0 else { return }
        var changed = sent[Int(choice) % sent.count]
        changed.payload[position % changed.payload.count] ^= difference
        precondition(!deliver(changed.payload, changed.type, by: nil), "a changed request has changed a handle")
    }

    mutating func pass(_ seconds: Int64) {
        wall += seconds
        clock = clock + .seconds(seconds)
    }

    /// The phone behind a handle was rung.
    mutating func rang(_ handle: Handle) {
        guard rows[handle].map({ $0.state != .forgotten }) == true else { return }
        rows[handle]?.state = .confirmed
        rows[handle]?.time = HandleEntry.day(of: wall)
    }

    /// - Parameter owner: who has signed it; `nil` if nobody has.
    /// - Returns: whether a handle changed.
    private mutating func deliver(_ payload: [UInt8], _ type: [UInt8], by owner: Int?) -> Bool {
        lastNumber += 1
        let number = withUnsafeBytes(of: lastNumber.bigEndian) { Array($0) }
        var (requests, effects) = receive(type + number + payload)
        var hasChanged = false
        for request in requests {
            let handle = Self.keys.handle(of: request, app: Self.app)
            let present = entry(of: handle)
            var outcome = Outcome.delivered()
            switch HandleEntry.change(request, app: Self.app, present, at: wall) {
            case .none(let unchanged): outcome = unchanged
            case .store(let entry):
                precondition(owner.map { Self.owners[$0].publicKey } == entry.record.owner, "another one's handle")
                precondition(present.map { $0.record.sequence < entry.record.sequence } ?? true, "an older request")
                if !handles.contains(handle) { handles.append(handle) }
                rows[handle] = Row(
                    sealed: Self.keys.seal(entry.record, of: handle), state: entry.state, time: entry.time)
                precondition(Self.keys.open(rows[handle]!.sealed, of: handle) == entry.record, "the row is unreadable")
                hasChanged = true
            }
            if outcome.kind == .delivered {
                session.registered(request.request, handle, now: clock, &effects)
            } else {
                session.finished(request.request, outcome, now: clock, &effects)
            }
        }
        let ended = finalOutcomes(in: effects.output, &decoder)
        precondition(effects.closes || ended == [lastNumber], "not the one final outcome")
        if effects.closes {
            let (rows, handles, sent, wall) = (rows, handles, sent, wall)
            self = OwnersStage()
            (self.rows, self.handles, self.sent, self.wall) = (rows, handles, sent, wall)
        }
        return hasChanged
    }

    /// What the store would find.
    private func entry(of handle: Handle) -> HandleEntry? {
        guard let row = rows[handle] else { return nil }
        guard let record = Self.keys.open(row.sealed, of: handle) else { preconditionFailure("the row is unreadable") }
        let entry = HandleEntry(record: record, state: row.state, time: row.time)
        return entry.isExpired(forgetDays: Self.forgetDays, at: wall) ? nil : entry
    }
}

/// The plain text of a state archive, in chunks: what is read of it is within bounds, and names no file elsewhere.
func readArchive(_ input: inout FuzzInput) {
    var decoder = ArchiveDecoder()
    var left: UInt64 = 0
    for chunk in input.pieces() {
        decoder.append(chunk)
        do {
            while let event = try decoder.next() {
                switch event {
                case .file(let path, let size):
                    precondition(left == 0, "a file begins before the last one has ended")
                    precondition(
                        !path.hasPrefix("/") && !path.split(separator: "/").contains("..") && path.utf8.count <= 255,
                        "a path leads elsewhere")
                    left = size
                case .content(let bytes):
                    precondition(!bytes.isEmpty && UInt64(bytes.count) <= left, "more than the file holds")
                    left -= UInt64(bytes.count)
                case .end:
                    precondition(left == 0, "the end within a file")
                    return
                }
            }
        } catch { return }
    }
}
