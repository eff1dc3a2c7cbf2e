// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing

@testable import Tor
@testable import tocsin
@testable import tocsin_bench

/// A short flood test, and the rules that the flood test follows.
@Suite(.tags(.extended)) struct FloodTests {
    @Test func `honest senders are served while hostile circuits of all kinds flood the node`() async throws {
        let (isSuccess, text) = try await ChildProcess.output(
            of: Program.bench, ["flood", "--seconds", "5", "--hostile", "60", "--honest", "10", "--check"])
        // --check: every honest envelope delivered, bad device tokens within the unproven budget, the node alive.
        #expect(isSuccess, "\(text)")
        #expect(text.contains("node alive at the end: yes"))
    }

    @Test func `honest senders are served through an onion service with circuit ids during a flood`() async throws {
        guard try await ChildProcess.output(of: "which", ["tor-gencert"]).isSuccess else {
            print("SKIPPED: tor is not installed; no flood went through an onion service")
            return
        }
        let options = ["--tor", "--seconds", "5", "--hostile", "12", "--honest", "3", "--check"]
        let (isSuccess, text) = try await ChildProcess.output(of: Program.bench, ["flood"] + options)
        #expect(isSuccess, "\(text)")
        #expect(text.contains("node alive at the end: yes"))
    }

    // MARK: Requirements

    @Test func `the flood report names each violated requirement and no other`() {
        var report = FloodReport()
        var figures = HonestStatistics()
        figures.submitted = 3
        for _ in 0..<3 { figures.delivered(after: .milliseconds(10)) }
        report.honest = [.calm: figures, .flooded: figures]
        report.isAlive = true
        report.attackDuration = .seconds(30)
        report.refusals = Refusals(production: 200, development: 200, google: 161)
        #expect(report.unprovenBudget == 361)
        #expect(report.violations(maxMegabytes: 100).isEmpty)
        #expect(report.p99Ratio == 1)

        var overBudget = report
        overBudget.refusals.google += 1
        #expect(overBudget.violations().count == 1)
        var late = report
        late.honest[.flooded]?.submitted += 1
        #expect(late.violations().map { $0.contains("1 of 4") } == [true])
        var idle = report
        idle.honest[.calm] = nil
        #expect(idle.violations().count == 1)
        #expect(idle.p99Ratio == nil)
        var dead = report
        dead.isAlive = false
        #expect(dead.violations().count == 1)
        var fat = report
        fat.node[.flooded] = ProcessUsage(cpuSeconds: 1, peakKilobytes: 101 * 1024)
        #expect(fat.violations().isEmpty)
        #expect(fat.violations(maxMegabytes: 100).count == 1)
        var absent = report
        absent.hostile[.replaying] = HostileStatistics(circuits: 5)
        #expect(absent.violations().count == 1)
        var repeating = report
        repeating.repeats = 1
        #expect(repeating.violations().count == 1)
        var garbled = report
        garbled.hostile[.garbage] = HostileStatistics(unreadable: 1)
        #expect(garbled.violations().count == 1)
    }

    @Test(arguments: [1, 14, 44, 300, 3600])
    func `an honest sender never exceeds its phone's rate limit`(_ seconds: Int) {
        let time = Duration.seconds(seconds)
        let pace = NodeDefaults.pace(over: time)
        let sent = 1 + time / pace
        #expect(pace >= .seconds(2))
        #expect(sent <= NodeDefaults.envelopesPerPhone(in: time))
    }

    // MARK: What hostile circuits send

    @Test(arguments: [1, 0xFFFF, 0x1_0001, .max] as [UInt32])
    func `the PROXY line names the circuit as tor does`(_ number: UInt32) throws {
        var decoder = ProxyLineDecoder()
        let line = TorCircuit(number: number).proxyLine
        let read = try decoder.append(line.span.bytes)
        #expect(read.circuit == number && read.taken == line.count)
    }

    private let id = TorCircuit(number: 7)

    /// The envelopes that a script sends in its first seconds, decoded as the node does.
    private func envelopes(of circuit: HostileCircuit, seconds: Int) throws -> [Envelope] {
        var random = SplitMix64(seed: 1)
        var script = HostileScript(circuit, after: id.proxyLine, turn: 0)
        var (bytes, time) = ([UInt8](), Duration.zero)
        while time < .seconds(seconds), let burst = script.next(using: &random) {
            bytes += burst.bytes
            time += burst.pause
        }
        var decoder = FrameDecoder(maximumLength: Frame.defaultMaximumLength)
        decoder.append(bytes.dropFirst(id.proxyLine.count))
        var envelopes: [Envelope] = []
        while let frame = try decoder.next() {
            if case .submit(let fields) = try Message(frame) {
                envelopes.append(try fields.checked(format: .pipe).envelope)
            }
        }
        return envelopes
    }

    @Test func `invented tokens are well-formed and new, fifty per second`() throws {
        let envelopes = try envelopes(of: HostileCircuit(kind: .inventedTokens), seconds: 4)
        #expect(envelopes.count == 200)
        #expect(Set(envelopes.map { Array($0.deviceToken) }).count == 200)
        #expect(Set(envelopes.map(\.magic)) == [.iOS, .android, .web])
    }

    @Test func `a replay sends the same envelope fifty times per second`() throws {
        var random = SplitMix64(seed: 1)
        let recipient = Recipient.invented(.iOS, at: "", using: &random)
        var source = EnvelopeGenerator([.iOS: [recipient.deviceToken]])
        let captured = source.next(.iOS)
        let envelopes = try envelopes(of: HostileCircuit(kind: .replaying, captured: captured), seconds: 2)
        #expect(envelopes.count == 100)
        #expect(envelopes.allSatisfy { $0.digest == captured.digest })
    }

    @Test func `bad tokens are reused in new envelopes`() throws {
        var random = SplitMix64(seed: 1)
        let targets = [Magic.iOS, .iOS, .android, .android].map { Recipient.invented($0, at: "", using: &random) }
        let envelopes = try envelopes(of: HostileCircuit(kind: .badTokens, targets: targets), seconds: 4)
        #expect(envelopes.count == 40)
        #expect(Set(envelopes.map { Array($0.deviceToken) }) == Set(targets.map(\.deviceToken)))
        #expect(Set(envelopes.map(\.digest)).count == 40)
    }

    @Test(arguments: MalformedStream.allCases)
    func `a malformed stream lasts 5 s and sends 250 frames per second at most`(
        _ garbage: MalformedStream
    ) throws {
        var random = SplitMix64(seed: 1)
        var (frames, time, bursts) = (0, Duration.zero, 0)
        while let burst = garbage.burst(bursts, after: id.proxyLine, using: &random) {
            frames += burst.frames
            time += burst.pause
            bursts += 1
            try #require(bursts < 100)
        }
        #expect(bursts > 0 && time <= .seconds(5))
        #expect(Double(frames) <= 250 * (time / .seconds(1)))
    }

    @Test(arguments: [GoAway.Code.abuse, .protocolError])
    func `a circuit blocked for abuse returns with a new id, otherwise with the same`(_ code: GoAway.Code)
        async throws
    {
        var random = SplitMix64(seed: 1)
        let circuit = HostileCircuit(kind: .badTokens, targets: [.invented(.android, at: "", using: &random)])
        let node = RefusingNode(code)
        let endpoint = try await node.listen()
        let attack = Attack(
            by: .direct(endpoint), http: nil, relay: endpoint, of: [circuit], ids: TorCircuits(after: 0),
            searches: IdleWorkers(), pauseFactor: 1)
        await attack.begin()
        for _ in 0..<6000 where await node.lines.count < 2 { try await Task.sleep(for: .milliseconds(100)) }
        let figures = try #require(await attack.stop()[.badTokens])
        let lines = await node.lines
        #expect(lines.count >= 2)
        #expect(Set(lines).count == (code == .abuse ? lines.count : 1))
        #expect(figures.goAways[code, default: 0] >= 1)
        await node.close()
    }
}

/// Reads the first line of each stream, then sends GOAWAY and closes.
private actor RefusingNode {
    private nonisolated let loop = EventLoop(name: "refusing")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let code: GoAway.Code
    private var listener: Listener?
    private(set) var lines: [String] = []

    init(_ code: GoAway.Code) { self.code = code }

    func listen() throws -> Endpoint {
        let listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { [unowned self] stream in
            // It never leaves the loop's thread, which assumeIsolated checks.
            nonisolated(unsafe) let stream = stream
            assumeIsolated { $0.accept(stream) }
        }
        self.listener = listener
        return listener.endpoint
    }

    func close() { listener = nil }

    private func accept(_ stream: ByteStream) {
        stream.pauseReading()
        Task { await refuse(stream) }
    }

    private func refuse(_ stream: ByteStream) async {
        guard let line = try? await StreamReader(stream).readLine() else { return }
        lines.append(line)
        var bytes: [UInt8] = []
        bytes.append(GoAway(code: code))
        stream.write(bytes)
        stream.finish()
    }
}
