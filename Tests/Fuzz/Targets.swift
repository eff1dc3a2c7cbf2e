// SPDX-License-Identifier: Apache-2.0

import CSodium
import Cryptography
import EventLoop
import HTTP2
import TNP
import Time

@testable import Admission
@testable import Delivery
@testable import HTTP1
@testable import Handles
@testable import Ingress
@testable import NodeConfiguration
@testable import Providers
@testable import Sender
@testable import Tor

/// What is fuzzed. Whatever the input is, a target returns; what it must never do, it checks by preconditions.
enum Target: String, CaseIterable {
    case frames, ingress, client, http, answers, http2, proxy, tor, control, spool, pairing, endpoint, responses, toml
    case encodings, engine, processes, owners, archive
    #if !WITHOUT_PHONES
        case phone
    #endif

    func run(_ input: inout FuzzInput) {
        switch self {
        case .frames: readFrames(&input)
        case .ingress: runIngress(&input)
        case .http: runHTTP(&input)
        case .answers: readAnswers(&input)
        case .client: runClient(&input)
        case .spool: readRows(&input)
        case .pairing: readTexts(&input)
        case .endpoint: readEndpoint(&input)
        case .responses: readResponses(&input)
        case .toml: readConfiguration(&input)
        case .encodings: compareEncodings(&input)
        case .engine: readEngine(&input)
        case .processes: readProcesses(&input)
        case .owners: runOwners(&input)
        case .archive: readArchive(&input)
        #if !WITHOUT_PHONES
            case .phone: runPhone(&input)
        #endif
        case .tor: readTor(&input)
        case .control: SimulatedPeer.shared.serveControl(&input)
        case .http2: SimulatedPeer.shared.serveHTTP2(&input)
        case .proxy: SimulatedPeer.shared.serveProxy(&input)
        }
    }
}

// MARK: Base64 and hexadecimal

/// Compares the encodings that have to be fast with libsodium's.
private func compareEncodings(_ input: inout FuzzInput) {
    let bytes = input.all()
    let base64 = Base64.encode(bytes)
    precondition(base64 == sodiumBase64(bytes, sodium_base64_VARIANT_ORIGINAL) && Base64.decode(base64) == bytes)
    precondition(Base64.encodeURLSafe(bytes) == sodiumBase64(bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING))
    // The input as text: `decodeSecret` is libsodium's.
    precondition(Base64.decode(bytes) == Base64.decodeSecret(bytes))
    let digits = Hex.decode(bytes)
    precondition(digits == sodiumBytes(ofHex: bytes))
    precondition(Hex.areDigits(bytes[...]) == bytes.allSatisfy(Hex.isDigit))
    precondition((digits != nil) == (Hex.areDigits(bytes[...]) && bytes.count.isMultiple(of: 2)))
    precondition(Hex.decode(Hex.encode(bytes)) == bytes)
}

private func sodiumBase64(_ bytes: [UInt8], _ variant: Int32) -> [UInt8] {
    var text = [CChar](repeating: 0, count: sodium_base64_encoded_len(bytes.count, variant))
    sodium_bin2base64(&text, text.count, bytes, bytes.count, variant)
    return text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
}

private func sodiumBytes(ofHex text: [UInt8]) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: text.count / 2 + 1)
    var length = 0
    let result = text.withUnsafeBytes {
        sodium_hex2bin(
            &output, output.count, $0.baseAddress?.assumingMemoryBound(to: CChar.self), text.count, nil, &length, nil)
    }
    return result == 0 ? Array(output.prefix(length)) : nil
}

// MARK: The wire protocol

/// Decodes a stream of frames, and encodes what it has understood.
private func readFrames(_ input: inout FuzzInput) {
    var decoder = FrameDecoder(maximumLength: Frame.defaultMaximumLength)
    var proxyLine = ProxyLineDecoder()
    for (number, piece) in input.pieces().enumerated() {
        if number == 0 { _ = try? proxyLine.append(piece.span.bytes) }
        decoder.append(piece.span.bytes)
        do {
            while let frame = try decoder.next() { use(try Message(frame)) }
        } catch { return }
    }
}

private func use(_ message: Message) {
    var written: [UInt8] = []
    switch message {
    case .hello(let hello): written.append(hello)
    case .welcome(let welcome): written.append(welcome)
    case .submit(let fields):
        for format in EnvelopeFormat.allCases {
            let phone = fields.handle.map { _ in (magic: Magic.iOS, deviceToken: Array("ab".utf8)) }
            guard let submission = try? fields.checked(format: format, phone: phone) else { continue }
            written.append(submission)
            var payload: [UInt8] = []
            submission.envelope.appendDeliveredJSON(format: format, messageMagic: [], to: &payload)
            precondition(submission.envelope.apnsID.count == 36)
        }
    case .result(let result): written.append(result)
    case .ping(let opaque), .pong(let opaque): written.append(pong: opaque)
    case .puzzle(let puzzle): written.append(puzzle)
    case .goAway(let goAway): written.append(goAway)
    case .handleRequest(let fields):
        guard let request = try? fields.checked(at: [.none]) else { break }
        written.append(request)
        precondition(!request.isSigned(by: []))
    case .registered(let result): written.append(result)
    case .authentication(let authentication):
        written.append(authentication)
        precondition(!authentication.isValid(seed: [], onion: .none))
    case .authenticated(let result): written.append(result)
    case .skipped: break
    }
    var decoder = FrameDecoder(maximumLength: 1 << 20)
    decoder.append(written.span.bytes)
    do {
        while let frame = try decoder.next() { _ = try Message(frame) }
    } catch {
        // A crash is how a fuzz target reports what it has found.
        fatalError("what was written is not readable: \(error)")
    }
}

private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
private let welcome = Welcome(
    maximumFrame: 8192, maximumInFlight: 8, idleTimeout: 600, serverTime: 1_760_000_000_123,
    puzzle: Puzzle(seed: [UInt8](repeating: 7, count: 16), effort: 0, lifetime: 3600),
    routes: ["bisq/android", "bisq/iOS"])

/// A whole connection of a sender: bytes, time, outcomes, shutdown. Each request gets one final outcome, when it is due,
/// and the node's frames are frames.
private func runIngress(_ input: inout FuzzInput) {
    let options = input.byte()
    let rules = IngressSession.Rules(
        circuitIDs: options & 1 != 0, onions: [.none], maximumFrame: 8192, maximumInFlight: 8,
        handshakeTimeout: .seconds(30),
        idleTimeout: .seconds(600), frameTimeout: .seconds(30), readTimeout: .seconds(30),
        control: Rate(burst: 20, perMinute: 60), apps: [(name: "bisq", format: .pipe)],
        routes: ["bisq/android", "bisq/iOS"], siteMode: options & 2 != 0 ? .open : .off,
        keepsHandles: options & 4 != 0)
    let site = Site(name: "site", key: [], rights: [.send], rate: Rate(burst: 10, perMinute: 10))
    var session = IngressSession(rules: rules, now: start)
    var clock = start
    var open: [UInt32] = []
    /// Those of ``open`` that handles' owners have sent.
    var owned: Set<UInt32> = []
    var decoder = FrameDecoder(maximumLength: 1 << 20)
    var isClosed = false
    while !input.isEmpty, !isClosed {
        var (requests, effects) = (IngressSession.Requests(), IngressSession.Effects())
        /// The requests that must get a final outcome now; `nil` for any that was not open before.
        var expected: [UInt32]? = []
        let choice = input.byte()
        switch choice & 7 {
        case 0, 1, 2, 3:
            let bytes = input.piece()
            expected = nil
            session.received(
                bytes.span.bytes, now: clock, welcome: { _ in welcome },
                identify: { _, _ in options & 8 != 0 ? site : nil }, &requests, &effects)
        case 4:
            clock = clock + .milliseconds(Int64(input.byte()) << (choice >> 4))
            if session.deadline.map({ $0 <= clock }) == true { session.timeReached(clock, &effects) }
        case 5 where !open.isEmpty:
            let request = open.remove(at: Int(choice >> 3) % open.count)
            expected = [request]
            if choice & 0x80 != 0 {
                owned.remove(request)
                let refusal = Refusal(.retry(.nodeBusy, after: 1000), puzzle: welcome.puzzle)
                session.refused(request, refusal, now: clock, &effects)
            } else if owned.remove(request) == nil {
                session.finished(request, Outcome(.delivered), now: clock, &effects)
            } else if choice & 8 != 0, let handle = Handle([UInt8](repeating: 1, count: Handle.length)) {
                session.registered(request, handle, now: clock, &effects)
            } else {
                session.finished(request, .retry(.nodeBusy, after: 1000), now: clock, &effects)
            }
        case 6 where !open.isEmpty:
            let request = open[Int(choice >> 3) % open.count]
            if !owned.contains(request) { session.finished(request, Outcome(.queued), now: clock, &effects) }
        case 7:
            switch choice >> 6 {
            case 0: session.announce(welcome.puzzle, &effects)
            case 1: session.shutDown(retryAfter: 1000, &effects)
            case 2: session.closeIdle("idle", &effects)
            default: session.reject(GoAway(code: .abuse, retryAfter: 1000, text: "abuse"), &effects)
            }
        default: break
        }
        let answered = finalOutcomes(in: effects.output, &decoder)
        precondition(answered.allSatisfy { !open.contains($0) }, "a final outcome of a request that is open")
        precondition(expected == nil || answered == expected, "not the one final outcome")
        open += requests.submissions.map(\.submission.request)
        open += requests.submissionsByHandle.map(\.request)
        open += requests.handleRequests.map(\.request)
        owned.formUnion(requests.handleRequests.map(\.request))
        precondition(Set(open).count == open.count, "a request is open twice")
        precondition(open.count <= rules.maximumInFlight, "more submissions in flight than allowed")
        isClosed = effects.closes
    }
}

/// The requests that these bytes of a node end.
func finalOutcomes(in output: [UInt8], _ decoder: inout FrameDecoder) -> [UInt32] {
    var requests: [UInt32] = []
    decoder.append(output.span.bytes)
    do {
        while let frame = try decoder.next() {
            switch try Message(frame) {
            case .result(let result) where result.outcome.isFinal: requests.append(result.request)
            case .registered(let result) where result.outcome.isFinal: requests.append(result.request)
            default: break
            }
        }
    } catch {
        // A crash is how a fuzz target reports what it has found.
        fatalError("the node sends a broken frame: \(error)")
    }
    return requests
}

/// A whole connection of the sending side, with a hostile node at the other end.
private func runClient(_ input: inout FuzzInput) {
    let options = input.byte()
    var session = SenderSession(doesWork: options & 1 != 0, maximumEffort: 16)
    var clock = start
    var actions: [SenderSession.Action] = []
    _ = session.connected(agent: "fuzz")
    var added = 0
    /// The requests without a final outcome.
    var waiting: Set<UInt32> = []
    while !input.isEmpty {
        let choice = input.byte()
        switch choice & 3 {
        case 0, 1:
            let bytes = input.piece()
            do { try session.received(bytes.span.bytes, &actions) } catch { session.disconnected() }
        case 2 where added < 50:
            added += 1
            let iv = Array("0123456789".utf8) + Array(String(100_000 + added).utf8)
            guard
                let envelope = try? Envelope(
                    magic: .android, deviceToken: Array("token".utf8)[...], iv: iv[...],
                    ciphertext: [UInt8](repeating: 1, count: 32)[...], format: .pipe)
            else { preconditionFailure("the envelope is invalid") }
            let submission = Submission(request: 0, envelope: envelope, acceptQueued: choice & 4 != 0)
            waiting.insert(session.add(PendingSubmission(submission, workLimit: .seconds(1))))
        default:
            clock = clock + .milliseconds(Int64(input.byte()))
            if choice & 4 != 0 { _ = session.connected(agent: "fuzz") }
        }
        actions += session.flush(now: clock)
        for case .solve(let request, _, let puzzle, _) in actions {
            session.searchBegan(request, now: clock)
            if choice & 8 != 0 {
                // The session trusts its own searches: the proof may be wrong.
                let proof = Proof(seedPrefix: Array(puzzle.seed.prefix(4)), effort: puzzle.effort, nonce: 1)
                session.solved(request, proof, now: clock)
            } else {
                actions += session.searchEnded(request)
            }
        }
        for case .result(let result) in actions where result.outcome.isFinal {
            precondition(waiting.remove(result.request) != nil, "a final outcome of a submission that has one")
        }
        precondition(waiting == Set(session.requests), "a submission was lost")
        actions = []
    }
}

// MARK: HTTP

private let resolver: AppResolver = {
    let text = """
        [[app]]
        name = "bisq"
        format = "pipe"
        [app.fcm]
        service_account_file = "a.json"
        [[app]]
        name = "connect"
        format = "sealed"
        [app.fcm]
        service_account_file = "a.json"
        """
    do { return AppResolver(try Configuration(text: text, file: "tocsin.toml").apps) } catch {
        fatalError("\(error)")
    }
}()

/// A connection to the HTTP endpoint, up to the envelope.
private func runHTTP(_ input: inout FuzzInput) {
    var session = HTTPSession(limits: .standard, now: start)
    for piece in input.pieces() {
        var effects = HTTPSession.Effects()
        session.received(piece.span.bytes, now: start, &effects)
        while let request = effects.requests.popLast() {
            effects = HTTPSession.Effects()
            if let route = try? APIRoute(request) {
                if let call = route.phoneRequest {
                    _ = try? call.handleRequest(at: [.none])
                } else if let push = try? route.apiRequest(), case .device(let magic, let token) = push.phone {
                    _ = try? resolver.envelope(of: push, to: magic, deviceToken: token)
                }
            }
            session.respond(HTTPResponse(status: 200), now: start, &effects)
        }
        if effects.closes { return }
    }
}

/// Answers of Apple, Google and Google's token endpoint.
private func readAnswers(_ input: inout FuzzInput) {
    let status = Int(input.byte()) << 2 | Int(input.byte() & 3)
    var headers = HeaderBlock()
    for name: StaticString in ["retry-after", "date", "apns-id", "content-type"] {
        let value = input.bytes(Int(input.byte() & 63))
        if !value.isEmpty { headers.append(name, String(decoding: value, as: UTF8.self)) }
    }
    let response = Response(status: status, headers: headers, body: input.all())
    let results = [APNsAnswers.attemptResult(on: response), FCMAnswers.attemptResult(on: response)]
    for result in results {
        // An answer never delays an envelope for longer than a day.
        precondition((result.retryAfter ?? 0) <= 86_400)
        var frame: [UInt8] = []
        frame.append(SubmissionResult(request: 1, outcome: result.outcome))
    }
    if case .result(let result)? = Message(wholeFrame: response.body[...]) {
        _ = UpstreamAnswers.attemptResult(on: result.outcome)
    }
    _ = ClockSkew(headers, now: 1_800_000_000)
    if case .granted(_, let lifetime) = AccessTokenResponse(response) { precondition((1...86_400).contains(lifetime)) }
}

// MARK: Files and texts

/// Rows of the spool and of the store of handles, as they are after decryption.
private func readRows(_ input: inout FuzzInput) {
    let bytes = input.all()
    if let stored = SpooledEnvelope(decoding: bytes) {
        guard let again = SpooledEnvelope(decoding: stored.encoded) else { preconditionFailure("not readable again") }
        precondition(again.envelope.digest == stored.envelope.digest && again.expires == stored.expires)
    }
    if let outcome = Outcome(spooled: bytes) { precondition(Outcome(spooled: outcome.spooled)?.kind == outcome.kind) }
    if let record = HandleEntry.Record(decoding: bytes) { precondition(record.encoded == bytes) }
}

/// Pairing tokens, handles and onion addresses.
private func readTexts(_ input: inout FuzzInput) {
    let text = String(decoding: input.all(), as: UTF8.self)
    if let token = try? PairingToken(text), let handle = Handle([UInt8](repeating: 1, count: Handle.length)) {
        let byHandle = try? PairingToken(token.text(by: handle))
        precondition(byHandle?.address == handle.bytes, "the pairing by handle is not readable")
    }
    if let handle = Handle(text: text) { precondition(Handle(text: handle.text)?.bytes == handle.bytes) }
    if let address = OnionAddress(text) { precondition(OnionAddress("\(address)") == address) }
    _ = Endpoint(text)
}

/// Push endpoints, which senders choose: what is accepted must say the same to everybody who reads it.
private func readEndpoint(_ input: inout FuzzInput) {
    let bytes = input.all()
    guard let endpoint = try? PushEndpoint(bytes[...]) else { return }
    let again = try? PushEndpoint(Array(endpoint.origin.utf8)[...] + endpoint.path)
    precondition(again == endpoint, "the parts are another endpoint")
    let allowed = Set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    precondition(endpoint.host.allSatisfy(allowed.contains), "the name has other characters")
    precondition(endpoint.host.split(separator: ".").last?.first?.isNumber == false, "the name is an address")
    let policy = PushServerPolicy(servers: [.suffix(".example")], ports: [443], localServers: [])
    if policy.addresses(for: endpoint) != nil {
        precondition(endpoint.host.hasSuffix(".example") && endpoint.port == 443, "the policy has let it through")
    }
}

/// What push servers answer over HTTP/1.1.
private func readResponses(_ input: inout FuzzInput) {
    let decoder = ResponseDecoder()
    func use(_ response: HTTPClientResponse) {
        precondition((100...999).contains(response.status), "the status is \(response.status)")
        let retryAfter = response.fields.first { $0.name == "retry-after" }?.value
        _ = WebPushAnswers.attemptResult(
            status: response.status, retryAfter: retryAfter, from: "a.notify.windows.com")
    }
    for piece in input.pieces() {
        do {
            if let response = try decoder.append(piece.span.bytes) { use(response) }
        } catch { return }
    }
    if let response = decoder.connectionClosed() { use(response) }
}

private func readConfiguration(_ input: inout FuzzInput) {
    _ = try? Configuration(text: String(decoding: input.all(), as: UTF8.self), file: "tocsin.toml")
}

/// What a node may say to a tor of another user, beside the login.
private let harmless = [
    "PROTOCOLINFO 1", "GETINFO process/pid", "GETINFO status/bootstrap-phase",
    "GETINFO process/pid status/bootstrap-phase", "SETEVENTS STATUS_CLIENT HS_DESC WARN ERR",
]

private func isLogin(_ command: ArraySlice<UInt8>) -> Bool {
    let words = command.dropLast().split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    let names = words.dropLast().map { String(decoding: $0, as: UTF8.self) }
    return command.last == UInt8(ascii: "\r") && [["AUTHENTICATE"], ["AUTHCHALLENGE", "SAFECOOKIE"]].contains(names)
        && words.last?.isEmpty == false && words.last?.allSatisfy { Hex.isDigit($0) } == true
}

/// What tor says, and a node to tor: replies and events of the control port, log lines, and files.
private func readTor(_ input: inout FuzzInput) {
    let bytes = input.all()
    var splitter = LineSplitter()
    var lines = splitter.lines(of: bytes)
    if let last = splitter.finish() { lines.append(last) }
    var uploads = DescriptorUploads()
    for line in lines {
        if let event = TorEvent(line: line) { uploads.observe(event) }
        _ = TorLogLine(line)
    }
    var filter = ControlFilter()
    for command in filter.filter(bytes).forTor.split(separator: UInt8(ascii: "\n")) {
        precondition(harmless.contains { command.elementsEqual("\($0)\r".utf8) } || isLogin(command), "not for tor")
    }
    _ = CookieAuthentication(protocolInfo: lines)
    _ = CookieAuthentication.command(
        challenge: lines, cookie: [UInt8](repeating: 1, count: 32), nonce: [UInt8](repeating: 2, count: 32))
    _ = TorVersion(output: String(decoding: bytes, as: UTF8.self))
    _ = OnionKey(line: bytes)
}
