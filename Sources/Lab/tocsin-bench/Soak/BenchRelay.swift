// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient
import Tor

struct BenchRelay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Ring phones through a node without credentials and its upstream, while both are killed.",
        discussion: """
            Half of the senders are desktops of today, which use the HTTP endpoint; the others speak TNP and accept \
            QUEUED. Both send again until the first node takes the notification. Kills (kill -9) hit one of the two \
            nodes at random. Exits with 0 only if everything taken was delivered, and nothing rang twice except what \
            was in flight during a kill.

            With --by-handle, the senders know the phones by handle only, and each phone's device token changes halfway. At \
            the end the old tokens are removed, and each phone must ring once more.

            EXAMPLES
              tocsin-bench relay --tor --kills 20
              tocsin-bench relay --tor --by-handle
            """)

    @Option(help: "Minimum number of envelopes; the senders go on until the last kill.")
    var envelopes = 1000

    @Option(help: "Number of kills.")
    var kills = 10

    @Option(help: "Maximum seconds between two kills.")
    var interval = 2.0

    @Option(help: "Submissions in flight.")
    var inFlight = 20

    @Flag(help: "Address phones by handle, and change their device tokens halfway.")
    var byHandle = false

    @Flag(help: "From node to node through a private Tor network.")
    var tor = false

    func run() async throws {
        try await TestBed.run(
            "relay", nodes: 2, more: SimulatedConfiguration.unlimitedRates + "\n[spool]\nenabled = true",
            servesHTTP: true
        ) { bed in
            var network: PrivateTorNetwork?
            var (upstream, socks) = (bed.endpoint(of: 1), Endpoint?.none)
            if tor {
                let started = try PrivateTorNetwork(on: EventLoop(name: "tor"))
                let access = try await started.start(target: upstream, virtualPort: 7077) { Terminal.progress($0) }
                (network, upstream, socks) = (started, access.onion, access.socks)
            }
            do {
                try await bed.makeRelay(0, to: upstream, socks: socks)
                let result = try await RelayRun(bed, byHandle: byHandle).run(
                    envelopes: envelopes, kills: kills, interval: interval, inFlight: inFlight)
                await network?.stop()
                Terminal.endProgress()
                Terminal.print(result.table)
                guard result.isGood else { throw fail("the nodes lost or repeated envelopes", .failure) }
            } catch {
                await network?.stop()
                throw error
            }
        }
    }
}

/// The result of a run.
private struct RelayResult {
    /// Kills of the first node, and of its upstream.
    var kills = [0, 0]
    var http = 0
    var tnp = 0
    var sentAgain = 0
    var lost = 0
    var secondsToEmpty = 0.0
    /// Phones that rang by handle after their old device tokens were removed, and all phones with a handle.
    var rungByHandle = (phones: 0, of: 0)
    var sums = Tally.Sums()

    var isGood: Bool {
        http > 0 && tnp > 0 && lost == 0 && rungByHandle.phones == rungByHandle.of && sums.unexplained == 0
            && sums.otherIDs == 0 && sums.otherCollapseIDs == 0
    }

    var table: String {
        """
        kills of the first node, of its upstream   \(kills[0]), \(kills[1])
        taken from HTTP senders                    \(http)
        taken from TNP senders                     \(tnp)
        sent again, because a node was killed      \(sentAgain)
        lost                                       \(lost)
        repeated, in flight during a kill          \(sums.repeats - sums.unexplained)
        repeated without need                      \(sums.unexplained)
        repeated under another apns-id             \(sums.otherIDs)
        all delivered after the last start in      \(Terminal.number(secondsToEmpty, digits: 1)) s
        """
            + (rungByHandle.of == 0
                ? "" : "\nrung by handle with the new device token   \(rungByHandle.phones) of \(rungByHandle.of)")
    }
}

/// Senders that submit while the nodes are killed and restarted.
private actor RelayRun {
    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let client: TocsinClient
    private var source: EnvelopeGenerator
    private var result = RelayResult()
    private var left = 0
    private var isKilling = true
    private var names: [Int] = []
    private let byHandle: Bool
    private let owner = Ed25519.PrivateKey(seed: SecureRandom.bytes(32))!
    /// The phones of the run: their first device token, and their handle, if the senders use it.
    private var phones: [(magic: Magic, token: [UInt8], handle: Handle?)]

    /// Few, because the first node has a circuit to its upstream for each phone, up to 64.
    private static let phonesPerKind = 20
    /// How long a sender resubmits an envelope.
    private static let patience = Duration.seconds(120)

    init(_ bed: TestBed, byHandle: Bool) {
        self.bed = bed
        self.byHandle = byHandle
        // A handle's second device token is made of the first one, which gives no endpoint of Web Push.
        let tokens = bed.tokens.filter { !byHandle || Magic.appleAndGoogle.contains($0.key) }
            .mapValues { Array($0.prefix(Self.phonesPerKind)) }
        phones = tokens.flatMap { magic, tokens in tokens.map { (magic, $0, nil) } }
        client = TocsinClient(
            TocsinClient.Options(nodes: [bed.endpoint], patience: .zero, isolatesPhones: false), on: loop)
        source = EnvelopeGenerator(tokens)
    }

    func run(envelopes: Int, kills: Int, interval: Double, inFlight: Int) async throws -> RelayResult {
        left = envelopes
        // Slow push services, so that some envelopes are always in flight.
        var slow = Faults()
        slow.latency = .uniform(1...200)
        for platform in [Device.Platform.apnsProduction, .apnsDevelopment, .fcm] {
            try await bed.services.set(slow, on: platform)
        }
        if byHandle { try await register() }
        let senders = Task {
            await withTaskGroup { group in
                for index in 0..<inFlight { group.addTask { await self.work(overHTTP: index % 2 == 0) } }
            }
        }
        for kill in 0..<kills {
            let victim = Int.random(in: 0...1)
            Terminal.progress("kill \(kill + 1) of \(kills), \(names.count) taken …")
            await loop.sleep(for: .seconds(Double.random(in: 0.2...max(0.3, interval))))
            await bed.killNode(victim)
            try await bed.startNode(victim)
            result.kills[victim] += 1
            if byHandle, kill == kills / 2 { try await rotate() }
        }
        isKilling = false
        await senders.value
        let start = MonotonicTime.now
        while MonotonicTime.now - start < Self.patience, names.contains(where: { !bed.tally.has($0) }) {
            await loop.sleep(for: .milliseconds(100))
        }
        result.secondsToEmpty = (MonotonicTime.now - start).milliseconds / 1000
        if byHandle { try await ringOnceMore() }
        await client.close()
        result.lost = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        return result
    }

    private func work(overHTTP: Bool) async {
        while left > 0 || isKilling {
            left -= 1
            let envelope = addressed(source.next([Magic.iOS, .iOSDev, .android][Int.random(in: 0..<3)]))
            let deadline = MonotonicTime.now + Self.patience
            while !(overHTTP ? await sendHTTP(envelope) : await sendTNP(envelope)), .now < deadline {
                result.sentAgain += 1
                await loop.sleep(for: .milliseconds(Int64.random(in: 100...500)))
            }
            if .now < deadline { names.append(envelope.tallyName) }
        }
    }

    // MARK: Handles

    private func register() async throws {
        for index in phones.indices {
            let phone = HandleRequest.Registration(magic: phones[index].magic, deviceToken: phones[index].token)
            phones[index].handle = try await client.register(phone, owner: owner)
        }
    }

    /// The device token that a phone gets halfway: the first one with its digits in reverse.
    private static func second(_ token: [UInt8]) -> [UInt8] { token.reversed() }

    /// Gives each phone another device token. The old one stays registered, for the notifications that the nodes have
    /// already taken.
    private func rotate() async throws {
        for phone in phones {
            guard let handle = phone.handle else { continue }
            let token = Self.second(phone.token)
            await bed.services.set(TestBed.device(phone.magic), for: String(decoding: token, as: UTF8.self))
            try await client.rotate(
                handle, to: HandleRequest.Registration(magic: phone.magic, deviceToken: token), owner: owner)
        }
    }

    /// Removes the old device tokens, and rings each phone.
    private func ringOnceMore() async throws {
        for phone in phones {
            await bed.services.set(nil, for: String(decoding: phone.token, as: UTF8.self))
            result.rungByHandle.of += 1
            // The generator takes the phones of a kind in turn.
            var envelope = source.next(phone.magic)
            while !envelope.deviceToken.elementsEqual(phone.token) { envelope = source.next(phone.magic) }
            envelope = addressed(envelope)
            let outcome = try await client.submit(envelope, timeout: Self.patience)
            if outcome.kind == .delivered { result.rungByHandle.phones += 1 }
        }
    }

    /// The envelope as its sender submits it: by handle, if the phone has one.
    private func addressed(_ envelope: Envelope) -> Envelope {
        guard let handle = phones.first(where: { envelope.deviceToken.elementsEqual($0.token) })?.handle else {
            return envelope
        }
        do {
            return try Envelope(
                magic: envelope.magic, deviceToken: [], handle: handle, iv: envelope.iv,
                ciphertext: envelope.ciphertext, format: .pipe)
        } catch {
            preconditionFailure("the generated envelope is valid: \(error)")
        }
    }

    private func sendHTTP(_ envelope: Envelope) async -> Bool {
        guard let stream = try? await loop.dial(bed.httpEndpoint, timeout: .seconds(2)) else { return false }
        let answer = await BisqRelayRequest(envelope).answer(on: stream, host: "localhost", within: .seconds(30), loop)
        guard BisqRelayRequest.isSuccess(answer) else { return false }
        result.http += 1
        return true
    }

    private func sendTNP(_ envelope: Envelope) async -> Bool {
        let outcome = try? await client.submit(
            envelope, timeout: .seconds(30), acceptQueued: true, returnsWhenQueued: true)
        guard outcome?.kind == .queued || outcome?.kind == .delivered else { return false }
        result.tnp += 1
        return true
    }
}
