// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient
import World

/// The desktops of all phones, and a site. Each rings its phones at random times, and does what the node's answers ask
/// for.
final class SimulatedSenders: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private let world: SimulatedWorld
    private let loop: EventLoop
    /// A client for each node, which prefers that node.
    private let clients: [TocsinClient]
    /// The same for the back end of a site, which rings the phones of its users.
    private let sites: [TocsinClient]
    private let handles: SimulatedHandles
    private let pace: Duration
    private var random: SimulatedRandomNumbers
    private var lastNumber = 0
    /// The number of HTTP requests in flight, by phone.
    private var requests: [Int: Int] = [:]
    private var keys: [Int: Ed25519.PrivateKey] = [:]
    /// Whether the desktops still make envelopes of their own accord.
    var isActive = true
    /// The number of envelopes whose sender waits for an outcome.
    private(set) var waiting = 0
    /// The longest time from a submission to DELIVERED, with all retries.
    private(set) var maximumWait = Duration.zero
    /// The longest time from a submission to its outcome while there were attacks only.
    private(set) var longestBoundedWait = Duration.zero
    private(set) var outcomes: [String: Int] = [:]

    /// How long an honest sender waits at most while there are attacks only.
    static let maximumAllowedWait = Duration.seconds(120)

    /// - Parameter pace: the average time between two notifications of one desktop.
    init(_ world: SimulatedWorld, handles: SimulatedHandles, pace: Duration) {
        self.world = world
        self.handles = handles
        self.pace = pace
        loop = world.sendersLoop
        random = world.simulation.random("desktops")
        clients = world.nodes.indices.map { node in
            TocsinClient(
                TocsinClient.Options(nodes: world.onions(for: node), connectTimeout: .seconds(30)),
                on: world.sendersLoop)
        }
        sites = world.nodes.indices.map { node in
            TocsinClient(
                TocsinClient.Options(
                    nodes: world.onions(for: node), connectTimeout: .seconds(30), isolatesPhones: false,
                    siteKey: SimulatedWorld.siteKey), on: world.sendersLoop)
        }
    }

    /// Which phones are rung through the site.
    private static func isOfSite(_ phone: Int) -> Bool { phone % 5 == 4 }

    /// Starts the desktop of each phone.
    func start() {
        world.simulation.run(as: world.sendersProcess) {
            for phone in world.phones { wait(phone.number) }
        }
    }

    private func wait(_ index: Int) {
        let pause = random.duration(in: .zero...(pace * 2))
        world.simulation.schedule(after: pause, in: world.sendersProcess) { [self] in
            if isActive { ring(index) }
            wait(index)
        }
    }

    /// Rings each phone once more, with envelopes that neither expire nor are replaced: each must arrive.
    func ringEveryPhone() {
        world.simulation.run(as: world.sendersProcess) {
            for phone in world.phones { ring(phone.number, mustArrive: true) }
        }
    }

    private func ring(_ index: Int, mustArrive: Bool = false) {
        if SimulatedHandles.isForHandle(index), handles.access(to: index) == nil { return }
        // Every third phone's sender does not sign, so it may also use the HTTP API, which has no Web Push.
        let mayUseHTTP =
            index.isMultiple(of: 3) && world.phones[index].magic != .web && !SimulatedHandles.isForHandle(index)
        if mayUseHTTP, mustArrive || random.happens(perMille: 300) {
            ringByHTTP(index, mustArrive: mustArrive)
            if !mustArrive { return }
        }
        let access = handles.access(to: index)
        let (envelope, name) = nextEnvelope(to: world.phones[index], by: access?.handle, mustArrive: mustArrive)
        let acceptQueued = random.happens(perMille: 700)
        let key = access?.key ?? (index.isMultiple(of: 3) ? nil : key(of: index))
        let node = world.layout.node(ofPhone: index)
        let client = (Self.isOfSite(index) ? sites : clients)[node]
        let returnsWhenQueued = random.happens(perMille: 500)
        world.judge.made(
            envelope, named: name, for: access.map { _ in handles.tokens(of: index) }, mayBeStored: acceptQueued)
        handles.made(name, for: index)
        waiting += 1
        let (began, isBounded) = (world.simulation.now, isBounded(at: node))
        // While waits are bounded, the timeout exceeds the bound, so that a longer wait shows.
        let timeout =
            mustArrive
            ? .seconds(600)
            : random.duration(in: (isBounded ? Self.maximumAllowedWait + .seconds(1) : .seconds(30))...(.seconds(1800)))
        if !mustArrive, let second = world.layout.alternatives(to: node).dropFirst().randomElement(using: &random),
            random.happens(perMille: 500)
        {
            // Two nodes of a cluster get the envelope at once.
            let other = clients[second]
            _ = Task(executorPreference: loop) { [self] in
                let outcome = try? await other.submit(
                    envelope, timeout: timeout, acceptQueued: acceptQueued, returnsWhenQueued: returnsWhenQueued,
                    signedBy: key)
                if let outcome { world.judge.told(outcome, of: name) }
            }
        }
        _ = Task(executorPreference: loop) { [self] in
            do {
                let outcome = try await client.submit(
                    envelope, timeout: timeout, acceptQueued: acceptQueued, returnsWhenQueued: returnsWhenQueued,
                    signedBy: key)
                world.judge.told(outcome, of: name)
                handles.told(outcome, of: name)
                outcomes["\(outcome.kind)", default: 0] += 1
                let wait = world.simulation.now - began
                if outcome.kind == .delivered { maximumWait = max(maximumWait, wait) }
                if isBounded { waited(wait, for: name) }
                if mustArrive, outcome.kind != .delivered, outcome.kind != .queued {
                    world.judge.violated("\(outcome.kind) \(name) although no fault is left: \(outcome.reason)")
                }
            } catch {
                world.judge.abandoned(name)
                outcomes["none", default: 0] += 1
                if isBounded { waited(world.simulation.now - began, for: name) }
                if mustArrive { world.judge.violated("no outcome of \(name) although no fault is left") }
            }
            waiting -= 1
        }
    }

    /// Whether an honest sender that begins now must get its outcome within ``maximumAllowedWait``, because there are
    /// attacks only until then.
    private func isBounded(at node: Int) -> Bool {
        if world.layout == .chain, node == NodeLayout.outage, WeatherEvent.mayBeOff(at: world.elapsed) { return false }
        return WeatherEvent.boundsWaits(at: world.elapsed)
            && WeatherEvent.boundsWaits(at: world.elapsed + Self.maximumAllowedWait)
    }

    /// Checks how long a sender has waited for an outcome while there were attacks only.
    private func waited(_ time: Duration, for name: String) {
        longestBoundedWait = max(longestBoundedWait, time)
        if time > Self.maximumAllowedWait {
            world.judge.violated("\(name) waited \(time.components.seconds) s although there were attacks only")
        }
    }

    /// Sends an envelope as the phone's desktop does over HTTP. Success counts as QUEUED: the node has delivered the
    /// envelope, or stored it.
    private func ringByHTTP(_ index: Int, mustArrive: Bool) {
        let phone = world.phones[index]
        let program = DesktopProgram(ofPhone: phone)
        guard requests[index, default: 0] < program.maximumRequests else {
            outcomes["HTTP lost in the desktop", default: 0] += 1
            return
        }
        requests[index, default: 0] += 1
        let (envelope, name) = nextEnvelope(to: phone, isPlain: true)
        world.judge.made(envelope, named: name)
        waiting += 1
        let node = world.layout.node(ofPhone: index)
        let (began, isBounded) = (world.simulation.now, isBounded(at: node))
        _ = Task(executorPreference: loop) { [self] in
            var answer = await send(envelope, named: name, of: program, to: node)
            if let first = answer, let pause = program.pause(after: first) {
                await loop.sleep(for: pause)
                answer = await send(envelope, named: name, of: program, to: node)
            }
            let isSuccess = answer?.isSuccess(for: program) ?? false
            if isSuccess { world.judge.told(Outcome(.queued), of: name) }
            world.judge.abandoned(name)
            outcomes["HTTP \(answer.map { String($0.status) } ?? "none")", default: 0] += 1
            if isBounded { waited(world.simulation.now - began, for: name) }
            if !isSuccess, isBounded || mustArrive, !world.judge.mayBeRefused(name) {
                world.judge.violated(
                    "\(program) lost \(name), with \(isBounded ? "attacks only" : "no fault left"): "
                        + (answer.map { "HTTP \($0.status)" } ?? "no answer"))
            }
            requests[index, default: 0] -= 1
            waiting -= 1
        }
    }

    /// - Returns: `nil` if the node cannot be reached or its answer is incomplete.
    private func send(
        _ envelope: Envelope, named name: String, of program: DesktopProgram, to node: Int
    ) async -> DesktopAnswer? {
        guard let stream = try? await loop.dial(world.nodes[node].httpOnion, timeout: .seconds(30)) else {
            return nil
        }
        let bytes = await StreamReader.answer(
            to: program.request(for: envelope, to: "node.test"), on: stream, within: program.timeout, loop)
        stream.close()
        guard let answer = DesktopAnswer(bytes) else { return nil }
        if let fault = answer.fault(for: program, mayBeRefused: world.judge.mayBeRefused(name)) {
            world.judge.violated("\(program) got \(fault) for \(name)")
        }
        return answer
    }

    private func key(of index: Int) -> Ed25519.PrivateKey {
        if let key = keys[index] { return key }
        let key = Ed25519.PrivateKey(seed: (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })!
        keys[index] = key
        return key
    }

    /// - Parameters:
    ///   - isPlain: whether to leave out what the HTTP API cannot express.
    ///   - mustArrive: whether the envelope has the longest ttl and no collapse id.
    /// - Returns: the envelope and its name.
    private func nextEnvelope(
        to phone: SimulatedPhone, by handle: Handle? = nil, isPlain: Bool = false, mustArrive: Bool = false
    ) -> (Envelope, name: String) {
        lastNumber += 1
        let digits = String(lastNumber)
        let number = String(repeating: "0", count: SimulatedPhone.numberLength - digits.count) + digits
        let blocks = 2 + Int(random.next() % 39)
        let content = (0..<16 * blocks).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let ttl: UInt32 = [300, 3600, 86_400, Envelope.maximumTTL][Int(random.next() % 4)]
        let collapseID = random.happens(perMille: 200) ? Array("trade-\(random.next() % 3)".utf8)[...] : nil
        if isPlain { return (phone.envelope(numbered: Array(number.utf8), content), number) }
        let envelope = phone.envelope(
            numbered: Array(number.utf8), content, by: handle, ttl: mustArrive ? Envelope.maximumTTL : ttl,
            priority: random.happens(perMille: 300) ? .conservePower : .immediate,
            collapseID: mustArrive ? nil : collapseID)
        return (envelope, number)
    }
}
