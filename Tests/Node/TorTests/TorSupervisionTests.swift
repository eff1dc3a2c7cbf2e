// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Time
@testable import Tor

@Suite(.tags(.sockets)) struct TorSupervisionTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let onion = OnionAddress(publicKey: [UInt8](repeating: 5, count: 32))

    private func running() -> TorSupervision {
        var tor = TorSupervision()
        _ = tor.handle(.start, at: start)
        _ = tor.handle(.started(pid: 7), at: start)
        return tor
    }

    private func published() throws -> TorSupervision {
        var tor = running()
        let onion = try #require(onion)
        for event in [TorEvent.bootstrapped(percent: 100), .uploading(onion), .uploaded(onion)] {
            _ = tor.handle(.control(event), at: start)
        }
        return tor
    }

    private func line(_ text: String) throws -> TorLogLine { try #require(TorLogLine(text)) }

    // MARK: Startup

    @Test func `tor starts once, and its progress is reported until the onion is published`() throws {
        let onion = try #require(onion)
        var tor = TorSupervision()
        #expect(tor.handle(.start, at: start) == [.start, .report])
        #expect(tor.status.phase == .starting)
        #expect(tor.handle(.start, at: start) == [])
        #expect(tor.handle(.started(pid: 7), at: start) == [.startTimer(.seconds(300)), .report])
        #expect(tor.status.pid == 7)
        #expect(tor.handle(.control(.bootstrapped(percent: 50)), at: start) == [.startTimer(.seconds(300)), .report])
        #expect(tor.handle(.control(.bootstrapped(percent: 50)), at: start) == [])
        #expect(tor.handle(.control(.bootstrapped(percent: 100)), at: start) == [.startTimer(.seconds(300)), .report])
        #expect(tor.handle(.control(.uploading(onion)), at: start) == [.startTimer(.seconds(300)), .report])
        #expect(!tor.status.isReachable)
        #expect(tor.handle(.control(.uploaded(onion)), at: start) == [.report])
        #expect(tor.status.isReachable)
        #expect(tor.status.address == onion)
        #expect(tor.status.restarts == 0)
    }

    @Test func `a later node takes over what an earlier one has recorded, unless tor is still starting`() throws {
        let (first, name) = (try #require(onion), try ClientName("old"))
        let other = try #require(OnionAddress("duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad"))
        for (percent, descriptor) in [(100, OnionDescriptor.published), (100, .failed), (45, .published)] {
            var tor = running()
            _ = tor.handle(.control(.bootstrapped(percent: percent)), at: start)
            _ = tor.handle(.identified(first: first, others: [.init(name: name, address: other)]), at: start)
            _ = tor.handle(.recorded([nil: .published, name: descriptor]), at: start)
            #expect(tor.status.isReachable == (percent == 100))
            #expect(
                tor.status.onions[0].descriptor == (percent == 100 && descriptor == .published ? .published : .none))
        }
    }

    @Test func `each onion has a descriptor of its own, and the first decides whether the node is reachable`() throws {
        let first = try #require(onion)
        let other = try #require(OnionAddress("duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad"))
        let foreign = try #require(OnionAddress("2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid"))
        var tor = running()
        let further = TorStatus.Onion(name: try ClientName("old"), address: other)
        _ = tor.handle(.identified(first: first, others: [further]), at: start)
        for event in [TorEvent.uploading(other), .uploaded(other), .failed(foreign)] {
            _ = tor.handle(.control(event), at: start)
        }
        #expect(tor.status.onions.map(\.descriptor) == [.published])
        #expect(tor.status.address == first && !tor.status.isReachable)
        for event in [TorEvent.uploading(first), .uploaded(first)] { _ = tor.handle(.control(event), at: start) }
        #expect(tor.status.isReachable)
        _ = tor.handle(.exited(status: "exit 1"), at: start)
        #expect(tor.status.onions.map(\.descriptor) == [.none] && tor.status.descriptor == .none)
    }

    @Test func `a stalled bootstrap or upload is reported until it progresses`() throws {
        let onion = try #require(onion)
        var tor = running()
        _ = tor.handle(.control(.bootstrapped(percent: 10)), at: start)
        #expect(tor.handle(.timerFired, at: start) == [.report])
        #expect(tor.status.problem == .stuck(percent: 10))
        _ = tor.handle(.control(.bootstrapped(percent: 100)), at: start)
        #expect(tor.status.problem == nil)
        #expect(tor.handle(.timerFired, at: start) == [.report])
        #expect(tor.status.problem == .unpublished)
        _ = tor.handle(.control(.uploading(onion)), at: start)
        _ = tor.handle(.control(.uploaded(onion)), at: start)
        #expect(tor.status.problem == nil)
        #expect(tor.handle(.timerFired, at: start) == [])
    }

    @Test func `a published onion that directories reject later is reported after five minutes`() throws {
        let onion = try #require(onion)
        var tor = try published()
        _ = tor.handle(.control(.uploading(onion)), at: start)
        #expect(tor.handle(.control(.failed(onion)), at: start) == [.startTimer(.seconds(300)), .report])
        #expect(!tor.status.isReachable)
        _ = tor.handle(.timerFired, at: start)
        #expect(tor.status.problem == .unpublished)
    }

    // MARK: Exits and restarts

    @Test func `each exit doubles the delay before the next start, from 1 s to 60 s`() throws {
        var tor = TorSupervision()
        _ = tor.handle(.start, at: start)
        for (index, pause) in [1, 2, 4, 8, 16, 32, 60, 60, 60].enumerated() {
            _ = tor.handle(.started(pid: 7), at: start)
            #expect(tor.handle(.exited(status: "exited(1)"), at: start) == [.startTimer(.seconds(pause)), .report])
            #expect(tor.status.phase == .waiting)
            #expect(tor.status.pid == nil)
            #expect(tor.handle(.timerFired, at: start) == [.start, .report])
            #expect(tor.status.restarts == index + 1)
        }
    }

    @Test func `a tor that ran for ten minutes restarts after one second`() throws {
        for (seconds, pause) in [(599, 4), (600, 1)] {
            var tor = TorSupervision()
            _ = tor.handle(.start, at: start)
            for _ in 0..<2 {
                _ = tor.handle(.started(pid: 7), at: start)
                _ = tor.handle(.exited(status: "exited(1)"), at: start)
                _ = tor.handle(.timerFired, at: start)
            }
            _ = tor.handle(.started(pid: 7), at: start)
            let actions = tor.handle(.exited(status: "exited(1)"), at: start + .seconds(seconds))
            #expect(actions.contains(.startTimer(.seconds(pause))))
        }
    }

    @Test func `an exit reports its status and tor's last warning, and resets all but the address`()
        throws
    {
        var tor = try published()
        _ = tor.handle(.logged(try line("[notice] fine")), at: start)
        _ = tor.handle(.logged(try line("[warn] first")), at: start)
        _ = tor.handle(.logged(try line("[err] Reading config failed--see warnings above.")), at: start)
        _ = tor.handle(.exited(status: "exited(1)"), at: start)
        #expect(tor.status.problem == .exited(status: "exited(1)", warning: "first"))
        #expect(
            "\(TorProblem.exited(status: "exited(1)", warning: "first"))".contains("first")
        )
        #expect(tor.status.bootstrap == 0)
        #expect(tor.status.descriptor == .none)
        #expect(tor.status.address == onion)
    }

    @Test func `the reason for an exit is tor's first specific warning while it starts, and the last one later`() throws
    {
        func reason(of texts: [String], in tor: TorSupervision) throws -> String? {
            var tor = tor
            for text in texts { _ = tor.handle(.logged(try line(text)), at: start) }
            _ = tor.handle(.exited(status: "exited(1)"), at: start)
            guard case .exited(_, let warning)? = tor.status.problem else { return nil }
            return warning
        }
        // As tor 0.4.9 logs an onion's directory that others can read, and a cut key.
        let permissions = [
            "[warn] You are running Tor as root. You don't need to, and you probably shouldn't.",
            "[warn] Permissions on directory /o are too permissive.",
            "[warn] Failed to parse/validate config: Failed to configure rendezvous options. See logs for details.",
            "[err] Reading config failed--see warnings above.",
        ]
        let key = [
            "[warn] We needed to load a secret key from /o/hs_ed25519_secret_key, but couldn't find it.",
            "[warn] Unable to generate keys and save in /o/hs_ed25519.",
            "[err] set_options(): Bug: Acting on config options left us in a broken state. Dying.",
        ]
        #expect(try reason(of: permissions, in: running()) == "Permissions on directory /o are too permissive.")
        #expect(try reason(of: key, in: running())?.hasPrefix("We needed to load a secret key") == true)
        #expect(try reason(of: ["[warn] one", "[warn] two", "[err] x--see warnings above."], in: published()) == "two")
        // A process does not give the reasons of the one before it.
        var again = running()
        _ = again.handle(.logged(try line("[warn] old")), at: start)
        _ = again.handle(.exited(status: "exited(1)"), at: start)
        _ = again.handle(.timerFired, at: start)
        _ = again.handle(.started(pid: 8), at: start)
        #expect(try reason(of: [], in: again) == nil)
    }

    @Test(arguments: [
        TorProblem.missing(binary: "tor"), .badSettings("x"), .unusable(binary: "tor", reason: "y"),
    ])
    func `a failed start is reported and retried`(_ problem: TorProblem) {
        var tor = TorSupervision()
        _ = tor.handle(.start, at: start)
        #expect(tor.handle(.startFailed(problem), at: start) == [.startTimer(.seconds(1)), .report])
        #expect(tor.status.problem == problem)
        #expect(tor.handle(.timerFired, at: start) == [.start, .report])
        #expect(tor.handle(.startFailed(problem), at: start) == [.startTimer(.seconds(2)), .report])
    }

    @Test func `an unresponsive tor is stopped and restarted`() {
        var tor = running()
        #expect(tor.handle(.controlLost, at: start) == [.stop, .report])
        #expect(tor.status.phase == .stopping)
        #expect(tor.handle(.exited(status: "signaled(9)"), at: start) == [.startTimer(.seconds(1)), .report])
        #expect(tor.status.problem == .unresponsive)
        #expect(tor.handle(.timerFired, at: start) == [.start, .report])
    }

    // MARK: The clock

    @Test func `a wrong clock remains the reported problem until the onion is published`() throws {
        let onion = try #require(onion)
        let words = "Our clock is 3 hours behind the time published in the consensus."
        var tor = running()
        _ = tor.handle(.logged(try line("[warn] \(words)")), at: start)
        #expect(tor.status.problem == .clock(words))
        // The clock explains the problems that follow.
        _ = tor.handle(.timerFired, at: start)
        #expect(tor.status.problem == .clock(words))
        _ = tor.handle(.exited(status: "exited(1)"), at: start)
        #expect(tor.status.problem == .clock(words))
        _ = tor.handle(.timerFired, at: start)
        _ = tor.handle(.started(pid: 8), at: start)
        _ = tor.handle(.control(.bootstrapped(percent: 100)), at: start)
        _ = tor.handle(.control(.uploading(onion)), at: start)
        _ = tor.handle(.control(.uploaded(onion)), at: start)
        #expect(tor.status.problem == nil)
        // tor warns of a small difference too, and keeps working.
        _ = tor.handle(.logged(try line("[warn] \(words)")), at: start)
        #expect(tor.status.problem == nil)
    }

    // MARK: Stopping

    @Test func `stop ends a running tor`() throws {
        var tor = try published()
        #expect(tor.handle(.stop, at: start) == [.stop, .report])
        #expect(tor.handle(.stop, at: start) == [])
        #expect(tor.handle(.exited(status: "exited(0)"), at: start) == [.report])
        #expect(tor.status.phase == .stopped)
        #expect(tor.status.problem == nil)
        #expect(tor.handle(.timerFired, at: start) == [])
    }

    @Test func `stop during a start ends tor as soon as it runs`() {
        var tor = TorSupervision()
        _ = tor.handle(.start, at: start)
        #expect(tor.handle(.stop, at: start) == [])
        #expect(tor.handle(.started(pid: 7), at: start) == [.stop, .report])
        #expect(tor.handle(.exited(status: "exited(0)"), at: start) == [.report])
        #expect(tor.status.phase == .stopped)

        tor = TorSupervision()
        _ = tor.handle(.start, at: start)
        _ = tor.handle(.stop, at: start)
        #expect(tor.handle(.startFailed(.missing(binary: "tor")), at: start) == [.report])
        #expect(tor.status.phase == .stopped)
    }

    @Test func `stop during the restart delay cancels the next start`() {
        var tor = running()
        _ = tor.handle(.exited(status: "exited(1)"), at: start)
        #expect(tor.handle(.stop, at: start) == [.report])
        #expect(tor.status.phase == .stopped)
        #expect(tor.handle(.timerFired, at: start) == [])
        #expect(tor.handle(.start, at: start) == [.start, .report])
    }

    @Test func `start during a stop restarts tor after its exit`() {
        var tor = running()
        _ = tor.handle(.stop, at: start)
        #expect(tor.handle(.start, at: start) == [])
        #expect(tor.handle(.exited(status: "exited(0)"), at: start) == [.startTimer(.seconds(1)), .report])
        #expect(tor.handle(.timerFired, at: start) == [.start, .report])
    }

    @Test func `in any order of events at most one tor runs, and a wanted one runs or is pending`() throws {
        let onion = try #require(onion)
        var random = SplitMix64(seed: 4)
        let warning = try line("[warn] our clock is behind")
        for _ in 0..<300 {
            var tor = TorSupervision()
            var (isLaunching, processes, isWaiting, isWanted) = (false, 0, false, false)
            for _ in 0..<200 {
                let event: TorSupervision.Event
                switch random.below(11) {
                case 0: event = .start
                case 1: event = .stop
                case 2, 3: event = isLaunching ? .started(pid: 7) : .timerFired
                case 4: event = isLaunching ? .startFailed(.missing(binary: "tor")) : .controlLost
                case 5: event = processes > 0 ? .exited(status: "exited(1)") : .stop
                case 6: event = .control(.bootstrapped(percent: random.below(101)))
                case 7: event = .control(.uploading(onion))
                case 8: event = .control(.uploaded(onion))
                case 9: event = .logged(warning)
                default: event = isWaiting ? .timerFired : .start
                }
                switch event {
                case .start: isWanted = true
                case .stop: isWanted = false
                case .started: (isLaunching, processes) = (false, processes + 1)
                case .startFailed: isLaunching = false
                case .exited: processes -= 1
                case .timerFired: isWaiting = false
                default: break
                }
                for action in tor.handle(event, at: start) {
                    switch action {
                    case .start:
                        #expect(!isLaunching && processes == 0)
                        isLaunching = true
                    case .stop: #expect(processes == 1)
                    case .startTimer: isWaiting = true
                    case .report: break
                    }
                }
                #expect(processes <= 1)
                #expect(!tor.status.isReachable || processes == 1)
                #expect((tor.status.pid != nil) == (processes == 1))
                // Never idle while the onion is wanted.
                let isBusy = isLaunching || processes == 1 || (isWaiting && tor.status.phase == .waiting)
                #expect(!isWanted || isBusy)
                if tor.status.phase == .stopped { #expect(!isLaunching && processes == 0) }
            }
        }
    }

    // MARK: Format

    @Test func `every problem text names a remedy or the restart`() throws {
        let version = try #require(TorVersion(output: "Tor version 0.4.7.16."))
        let remedies: [(TorProblem, String)] = [
            (.missing(binary: "tor"), "apt install tor"), (.unusable(binary: "/x", reason: "y"), "tor.binary"),
            (.tooOld(version), "0.4.8.0"), (.clock("z"), "timedatectl"), (.stuck(percent: 5), "firewall"),
            (.unpublished, "another machine"), (.exited(status: "exited(1)", warning: nil), "restarted"),
            (.unresponsive, "restarted"),
        ]
        for (problem, part) in remedies { #expect("\(problem)".contains(part), "\(problem)") }
    }
}
