// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import TNP
import Time
import TocsinClient
import TocsinNode
import World

struct BenchSimulateAttack: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate-attack", abstract: "Run an attacker's program against a node with honest users.",
        discussion: """
            The attacker does what the protocol allows a stranger: submissions to phones that he knows, invents or owns, \
            handles, sites, HTTP, garbage, at a cost of at most \(AttackAction.maximumCost) requests. Honest users ring \
            their phones meanwhile, some register handles, and some join afterwards. Whoever is refused, rung late, \
            twice or not at all is harmed: exits with 1 then, and names the first harm. The seed determines everything.

            EXAMPLES
              tocsin-bench simulate-attack --seed 1
              tocsin-bench simulate-attack --seed 1 --skip 3,4,5
              tocsin-bench simulate-attack --seed 1 --no-attack
            """)

    @Option(help: "The seed, which determines everything.")
    var seed: UInt64 = 1

    @Option(help: "Leave out the actions with these numbers, separated by commas.")
    var skip: String?

    @Flag(help: "Leave out all actions: nobody must be harmed.")
    var noAttack = false

    @Option(help: "Print the node's log from this level: debug, info, notice, warning or error.")
    var log: String?

    @Flag(help: .hidden)
    var report = false

    func run() async throws {
        try BenchSimulate.ensureDeterministicHashing()
        guard try simulate() else { throw ExitCode(1) }
    }

    private func simulate() throws -> Bool {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-simulate-\(getpid())").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let world = try SimulatedWorld(seed: seed, directory: directory)
        if let log { world.logLevel = log }
        world.showLog = { [log] line in
            if log != nil { Terminal.print("\(WeatherEvent.text(world.elapsed)) \(line)") }
        }
        var random = world.simulation.random("program")
        let skipped = Set((skip ?? "").split(separator: ",").compactMap { Int($0) })
        let program = noAttack ? [] : AttackAction.program(using: &random)
        let chosen = program.enumerated().filter { !skipped.contains($0.offset + 1) }
        let attack = AttackSimulation(world)
        let began = ContinuousClock.now
        // A step that blocks would never end: the simulation has one thread.
        alarm(BenchSimulate.maximumStep)
        defer { alarm(0) }
        try attack.run(chosen.map(\.element))
        let real = ContinuousClock.now - began
        let milliseconds = Int(real.components.seconds * 1000 + real.components.attoseconds / 1_000_000_000_000_000)
        Terminal.print(
            "seed \(seed): \(chosen.count) actions, cost \(attack.cost), \(world.judge.delivered) notifications "
                + "received, \(WeatherEvent.text(world.elapsed)) in \(milliseconds) ms")
        guard let harm = attack.harm else { return true }
        for (offset, action) in chosen.prefix(attack.begun) { Terminal.error("  \(offset + 1) \(action)") }
        Terminal.error("seed \(seed): \(harm)")
        if report {
            let begun = chosen.prefix(attack.begun).last?.offset ?? 0
            Terminal.print("FAILED \(begun + 1) 0 \(harm)")
        }
        return false
    }
}

/// A node with honest users, and an attacker who performs a program.
final class AttackSimulation: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private let world: SimulatedWorld
    private var users: [HonestUser] = []
    private var firstHarm: String?
    /// How many actions have begun.
    private(set) var begun = 0
    private(set) var cost = 0
    private var isAttacking = true

    /// The first harm to an honest user.
    var harm: String? { firstHarm ?? world.judge.violation }
    /// How often the notifications of honest users have rung a phone.
    private var rung: [String: Int] = [:]
    /// All honest users, also those who come later.
    private var everybody: [HonestUser] = []

    /// Honest users are rung this often on average.
    private static let pace = Duration.seconds(25)
    /// The minutes after the program: a handle that is not confirmed ends after ten.
    private static let minutesAfterAttack = 13

    init(_ world: SimulatedWorld) { self.world = world }

    private func makeUsers() -> (known: [HonestUser], late: [HonestUser]) {
        let site = TocsinClient(
            TocsinClient.Options(
                nodes: world.onions(for: 0), connectTimeout: .seconds(20), isolatesPhones: false,
                siteKey: SimulatedWorld.siteKey), on: world.sendersLoop)
        siteClient = site
        // The platforms of the phones follow each other: iOS, android, iOSDev, web.
        let ways: [HonestUser.Way] =
            [.signed, .signed, .signed, .signed] + [.unsigned, .unsigned, .unsigned, .unsigned]
            + [.http, .http, .http, .signed] + [.handle, .handle, .handle, .handle] + [.site, .site, .site, .site]
        let harmed: (String) -> Void = { [unowned self] in self.harmed($0) }
        let hasRung: (String) -> Bool = { [unowned self] in rung[$0] != nil }
        for (number, phone) in world.phones.enumerated() {
            let way: HonestUser.Way = number < ways.count ? ways[number] : [.unsigned, .handle][number % 2]
            users.append(
                HonestUser(
                    number, phone, way, in: world, client: way == .site ? site : nil, hasRung: hasRung, harmed: harmed))
        }
        everybody = users
        let late = Array(users[ways.count...])
        users.removeLast(late.count)
        users[7].isExposed = true
        return ([users[0], users[1], users[3], users[7]], late)
    }

    private var siteClient: TocsinClient?

    /// Checks that an honest user's phone rings only for that user's notifications, and that these ring no other phone.
    private func check(_ notification: ReceivedNotification, _ name: String) {
        let isHonest = name.hasPrefix(HonestUser.namePrefix)
        if isHonest { rung[name, default: 0] += 1 }
        if isHonest, rung[name] == 2 { harmed("a phone rang twice for \(name)") }
        let owner = everybody.first { $0.isPhone(notification.deviceToken) }
        if isHonest, owner?.hasSent(name) != true {
            harmed("\(name) rang a phone that is not its user's")
        } else if name.hasPrefix(SimulatedAttacker.namePrefix), let owner, !owner.isExposed {
            harmed("\(owner.description) is rung by a stranger")
        }
    }

    /// Checks that a program which costs less than the budget for unproven device tokens does not use that up: new phones
    /// would have to pay.
    private func checkEfforts(after cost: Int) {
        guard let running = world.nodes[0].running else { return }
        world.simulation.run(as: running.process) {
            _ = Task(executorPreference: running.loop) { [self] in
                guard let efforts = await running.node.efforts, efforts.unproven > 0 else { return }
                harmed("at a cost of \(cost), new phones need proofs of work of effort \(efforts.unproven)")
            }
        }
    }

    private func harmed(_ how: String) { firstHarm = firstHarm ?? how }

    /// Runs until an honest user is harmed, or everything is over.
    func run(_ program: [AttackAction]) throws {
        try world.start(phones: 24)
        let (known, late) = makeUsers()
        world.received = { [self] in check($0, $1) }
        let simulation = world.simulation
        simulation.afterStep = { [self] in if harm != nil { simulation.pause() } }
        let rings = { [self] (users: [HonestUser]) in
            try world.perform(on: world.sendersLoop, in: world.sendersProcess) { [self] in
                for user in users where harm == nil { await user.ring() }
            }
        }
        // Each phone is proven, and some are bound.
        try rings(users)
        guard harm == nil else { return }
        let owner = users.first { $0.way == .handle }
        let attacker = SimulatedAttacker(
            world,
            knowing: SimulatedAttacker.Knowledge(
                phones: known.map(\.phone), handle: owner?.handle, register: owner?.register
            ) { [self] envelope in
                guard let siteClient else { return }
                _ = Task(executorPreference: world.sendersLoop) {
                    _ = try? await siteClient.submit(envelope, timeout: .seconds(60))
                }
            })
        for user in users { ringAgain(user) }
        try world.perform(on: world.sendersLoop, in: world.sendersProcess) { [self] in
            for action in program where harm == nil {
                begun += 1
                await attacker.perform(action)
                checkEfforts(after: attacker.cost)
            }
            attacker.stop()
        }
        cost = attacker.cost
        guard harm == nil else { return }
        // Those who come later, and the known phones' owners, who register handles only now.
        try rings(late)
        try world.perform(on: world.sendersLoop, in: world.sendersProcess) { [self] in
            for user in known where harm == nil && !user.isExposed { await user.registerHandle() }
        }
        for _ in 0..<Self.minutesAfterAttack where harm == nil { simulation.run(for: .seconds(60)) }
        try rings(late + users)
        isAttacking = false
        for _ in 0..<3 where harm == nil { simulation.run(for: .seconds(60)) }
    }

    private func ringAgain(_ user: HonestUser) {
        var random = world.simulation.random("user \(user.phone.number) \(world.elapsed)")
        world.simulation.schedule(after: random.duration(in: .seconds(1)...(Self.pace * 2)), in: world.sendersProcess) {
            [self] in
            guard isAttacking, harm == nil else { return }
            _ = Task(executorPreference: world.sendersLoop) { [self] in
                await user.ring()
                ringAgain(user)
            }
        }
    }
}
