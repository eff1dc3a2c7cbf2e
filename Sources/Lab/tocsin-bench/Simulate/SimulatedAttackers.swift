// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import World

/// Hostile senders. Up to 12 of their connections share a circuit.
final class SimulatedAttackers: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private let world: SimulatedWorld
    private var random: SimulatedRandomNumbers
    private var running: Set<Int> = []
    private var isFlood = false
    /// The number of connections that attackers have tried to open.
    private(set) var connections = 0
    /// The number of intact frames with unknown device tokens that they have sent.
    private(set) var unknownTokens = 0

    init(_ world: SimulatedWorld) {
        self.world = world
        random = world.simulation.random("attackers")
    }

    func begin(_ event: WeatherEvent) {
        running.insert(event.number)
        let some = 1 + Int(event.choice >> 8 & 7)
        let count = event.kind == .manyConnections ? 40 * some : some
        for _ in 0..<count { attack(event) }
    }

    /// Sends unknown device tokens on six connections at a time, for `length`.
    func flood(for length: Duration) {
        isFlood = true
        let event = WeatherEvent(
            number: .max, start: world.elapsed, kind: .unknownTokens, length: length, choice: 5 << 8)
        begin(event)
        world.simulation.schedule(after: length, in: world.simulation.background) { [self] in end(event) }
    }

    func end(_ event: WeatherEvent) { running.remove(event.number) }

    /// Attacks on one connection after another, until the event ends.
    private func attack(_ event: WeatherEvent) {
        guard running.contains(event.number) else { return }
        connections += 1
        let onion = world.nodes[connections % world.nodes.count].attackedOnion
        world.simulation.run(as: world.sendersProcess) {
            _ = Task(executorPreference: world.sendersLoop) { [self] in
                let loop = world.sendersLoop
                if let stream = try? await loop.dial(onion, timeout: .seconds(20)) {
                    let attacker = AttackingStream(stream)
                    stream.handler = attacker
                    stream.resumeReading()
                    await use(attacker, for: event)
                    stream.close()
                }
                await loop.sleep(for: .seconds(5))
                attack(event)
            }
        }
    }

    private func use(_ attacker: AttackingStream, for event: WeatherEvent) async {
        let loop = world.sendersLoop
        var bytes: [UInt8] = []
        bytes.append(Hello(agent: ""))
        switch event.kind {
        case .unknownTokens:
            attacker.stream.write(bytes)
            for request in 1..<UInt32(100) where !attacker.hasEnded && running.contains(event.number) {
                var frame: [UInt8] = []
                frame.append(unknown(request))
                attacker.stream.write(frame)
                unknownTokens += 1
                await loop.sleep(for: random.duration(in: .milliseconds(10)...(.milliseconds(400))))
            }
        case .brokenFrames:
            if random.happens(perMille: 700) { attacker.stream.write(bytes) }
            var frame: [UInt8] = []
            frame.append(unknown(1))
            for _ in 0...(random.next() % 4) {
                frame[Int(random.next() % UInt64(frame.count))] ^= UInt8(truncatingIfNeeded: random.next())
            }
            if random.happens(perMille: 500) { frame.removeLast(Int(random.next() % UInt64(frame.count))) }
            attacker.stream.write(frame)
            await loop.sleep(for: random.duration(in: .milliseconds(10)...(.seconds(40))))
        case .silentConnections:
            // One byte at a time, then silence.
            for byte in bytes where !attacker.hasEnded {
                attacker.stream.write([byte])
                await loop.sleep(for: random.duration(in: .milliseconds(100)...(.seconds(4))))
            }
            await loop.sleep(for: random.duration(in: .seconds(10)...(.seconds(900))))
        default:
            attacker.stream.write(bytes)
            await loop.sleep(for: random.duration(in: .zero...(.seconds(60))))
        }
    }

    private func unknown(_ request: UInt32) -> Submission {
        // In a flood, Google is asked about each device token once: the node would ask Apple in both environments, and
        // would try a stored envelope again.
        let magics = isFlood ? [Magic.android] : [.iOS, .iOSDev, .android, .web]
        let phone = SimulatedPhone(
            number: 0, magic: magics[Int(random.next() % UInt64(magics.count))], using: &random)
        let number = Array("attack".utf8) + (0..<10).map { _ in UInt8(ascii: "a") + UInt8(random.next() % 26) }
        return Submission(
            request: request, envelope: phone.envelope(numbered: number, [UInt8](repeating: 7, count: 32)),
            acceptQueued: !isFlood && random.happens(perMille: 500))
    }
}

/// A connection of an attacker, who reads what the node says and ignores it.
private final class AttackingStream: ByteStreamHandler {
    let stream: ByteStream
    private(set) var hasEnded = false

    init(_ stream: ByteStream) { self.stream = stream }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {}
    func stream(_ stream: ByteStream, ended reason: StreamError) { hasEnded = true }
}
