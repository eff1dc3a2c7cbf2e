// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTP2
import Providers
import Settings
import StandIns
import TNP
import TestSupport
import Testing

@testable import Cryptography
@testable import Diagnostics
@testable import EventLoop
@testable import TocsinNode
@testable import Tor

/// Tests how the check grades facts, without files, network or clock.
@Suite(.tags(.sockets)) struct CheckRulesTests {
    private let day: Int64 = 86_400
    private let now: Int64 = 1_800_000_000

    // MARK: State directory

    private func state(
        _ kind: StateCheck.Kind = .directory, mode: mode_t = 0o700, owner: uid_t = 7, user: uid_t = 7,
        writeFailure: String? = nil, lock: LockState = .free
    ) -> StateCheck {
        StateCheck(
            path: "/s", kind: kind, mode: mode, owner: owner, user: user, writeFailure: writeFailure, lock: lock)
    }

    @Test func `a missing state directory is fine only if the node can create it`() {
        #expect(state(.missing(isPossible: true, reason: "x")).findings.map(\.grade) == [.ok])
        let impossible = state(.missing(isPossible: false, reason: "Read-only file system")).findings
        #expect(impossible.map(\.grade) == [.failed])
        #expect(
            impossible[0].text.contains("Read-only file system") && impossible[0].text.contains("install -d -m 700"))
        #expect(state(.other).findings.map(\.grade) == [.failed])
    }

    @Test func `a node refuses a state directory of another user`() {
        #expect(state().refusal == nil)
        #expect(state(.missing(isPossible: true, reason: "")).refusal == nil)
        #expect(state(.other).refusal?.contains("is not a directory") == true)
        let refusal = state(owner: 4_000_000, user: 0).refusal
        #expect(refusal?.contains("belongs to uid 4000000, but the node runs as root") == true)
        #expect(refusal?.contains("sudo -u 4000000 tocsin run") == true)
        #expect(refusal?.contains("chown -R root: /s") == true)
        var mixed = state(owner: 0, user: 0)
        mixed.foreignEntry = ("/s/standing.sqlite", 4_000_000)
        #expect(mixed.refusal?.contains("/s/standing.sqlite, which belongs to uid 4000000, not to root") == true)
    }

    @Test func `a state directory must be accessible to its owner only`() {
        let cases: [(mode_t, Finding.Grade)] = [
            (0o700, .ok), (0o500, .ok), (0o750, .warning), (0o701, .warning), (0o770, .failed), (0o702, .failed),
        ]
        for (mode, grade) in cases {
            let finding = state(mode: mode).findings[0]
            #expect(finding.grade == grade, "\(String(mode, radix: 8))")
            #expect((grade == .ok) != finding.text.contains("chmod 700 /s"), "\(String(mode, radix: 8))")
        }
    }

    @Test func `the check fails for another user's state directory, except as root`() {
        #expect(state(owner: 7, user: 8).findings[0].grade == .failed)
        let root = state(owner: 7, user: 0)
        #expect(root.findings[0].grade == .ok && root.nodeUser == 7)
        let full = state(writeFailure: "Read-only file system").findings[0]
        #expect(full.grade == .failed && full.text.contains("Read-only file system"))
    }

    @Test func `a running node is named by its pid`() {
        #expect(state(lock: .held(pid: 77)).findings[1].text.contains("pid 77"))
        #expect(state(lock: .held(pid: nil)).findings[1].grade == .ok)
        #expect(state(lock: .unknown(reason: "Permission denied")).findings[1].grade == .warning)
    }

    // MARK: Clock, disk, limits

    @Test func `an implausible clock fails, an unsynchronized one is a warning`() {
        let cases: [(Int64, Bool?, Finding.Grade)] = [
            (0, true, .failed), (ClockCheck.earliest - 1, true, .failed), (ClockCheck.earliest, true, .ok),
            (ClockCheck.latest - 1, nil, .ok), (ClockCheck.latest, true, .failed), (now, false, .warning),
        ]
        for (time, isSynchronised, grade) in cases {
            #expect(
                ClockCheck.local(now: time, isSynchronised: isSynchronised).grade == grade,
                "\(time) \(String(describing: isSynchronised))")
        }
    }

    @Test func `a clock more than 1 minute off is a warning, more than 5 a failure`() {
        let cases: [(Int64, Finding.Grade)] = [
            (0, .ok), (60, .ok), (-60, .ok), (61, .warning), (-61, .warning), (300, .warning), (301, .failed),
            (-301, .failed), (.min, .failed), (.max, .failed),
        ]
        for (ahead, grade) in cases {
            #expect(ClockCheck.comparison(with: "h", ahead: ahead).grade == grade, "\(ahead)")
        }
        #expect(ClockCheck.comparison(with: "h", ahead: 90).text.contains("90 s ahead"))
        #expect(ClockCheck.comparison(with: "h", ahead: -90).text.contains("90 s behind"))
    }

    @Test func `free disk space is compared with the spool's remaining size`() {
        func grade(_ bytes: Int, files: Int? = nil, spool: Int? = nil, size: Int = 0) -> Finding.Grade {
            DiskCheck(path: "/s", freeBytes: bytes, freeFiles: files, spoolLimit: spool, spoolSize: size)
                .finding.grade
        }
        let (minimum, plenty) = (DiskCheck.minimumFree, 1 << 40)
        #expect(grade(0) == .failed && grade(minimum - 1) == .failed && grade(minimum) == .warning)
        #expect(grade(DiskCheck.comfortable - 1) == .warning && grade(DiskCheck.comfortable) == .ok)
        #expect(grade(plenty, files: 99) == .failed && grade(plenty, files: 100) == .ok)
        let spool = 1 << 30
        #expect(grade(spool + minimum - 1, spool: spool) == .warning && grade(spool + minimum, spool: spool) == .ok)
        #expect(grade(spool / 2 + minimum, spool: spool, size: spool / 2) == .ok)
        #expect(grade(DiskCheck.comfortable, spool: spool, size: 2 * spool) == .ok)
    }

    private let limitsText = """
        Limit                     Soft Limit           Hard Limit           Units
        Max cpu time              unlimited            unlimited            seconds
        Max core file size        0                    unlimited            bytes
        Max open files            1024                 20000                files
        Max locked memory         8388608              unlimited            bytes
        """

    @Test func `limits are read from the kernel's format`() throws {
        let limits = try #require(LimitCheck(of: "n", isNode: true, procText: limitsText))
        // The hard limit of open files counts, because the node raises its soft limit.
        #expect(limits.files == 20_000 && limits.locked == 8_388_608 && limits.core == 0)
        let unlimited = limitsText.replacing("8388608", with: "unlimited")
        #expect(LimitCheck(of: "n", isNode: true, procText: unlimited)?.locked == .max)
        for wrong in ["", "Max open files", limitsText.replacing("20000", with: "many")] {
            #expect(LimitCheck(of: "n", isNode: true, procText: wrong) == nil)
        }
        #expect(LimitCheck.read(node: nil) != nil)
    }

    @Test func `a limit that is too low says what to raise`() {
        func limits(_ files: UInt64, locked: UInt64 = .max, core: UInt64 = 0, isNode: Bool = true) -> [Finding] {
            LimitCheck(process: "n", isNode: isNode, files: files, locked: locked, core: core)
                .findings(connections: 1000, others: 200)
        }
        #expect(limits(1200).map(\.grade) == [.ok, .ok, .ok])
        #expect(limits(.max)[0].grade == .ok)
        let few = limits(1199)[0]
        #expect(few.grade == .warning && few.text.contains("999") && few.text.contains("LimitNOFILE=1200"))
        #expect(limits(200)[0].grade == .failed && limits(0)[0].grade == .failed)
        #expect(limits(2000, locked: 65_536)[1].grade == .warning)
        #expect(limits(2000, core: 1)[2].grade == .warning)
        // The node disables core dumps itself.
        #expect(limits(2000, core: 1, isNode: false)[2].grade == .ok)
    }

    // MARK: tor, ports

    @Test func `a missing tor is a failure only if the node manages it`() throws {
        let version = try #require(TorVersion(output: "Tor version 0.4.9.11."))
        let (good, bare) = (
            TorBuild(version: version, hasProofOfWork: true), TorBuild(version: version, hasProofOfWork: false)
        )
        let address = try #require(OnionAddress(publicKey: [UInt8](repeating: 9, count: 32)))
        let old = try #require(TorVersion(output: "Tor version 0.4.7.16."))
        let cases: [(TorCheck, Finding.Grade, String)] = [
            (.managed(.node, .success(good)), .ok, "0.4.9.11"),
            (.managed(.node, .success(bare)), .warning, "proof of work"),
            (.managed(.node, .failure(.missing(binary: "tor"))), .failed, "apt install tor"),
            (.managed(.node, .failure(.tooOld(old))), .failed, "too old"),
            (.external(directory: "/o", .success(address)), .ok, "\(address)"),
            (.external(directory: "/o", .success(nil)), .warning, "/o"),
            (.external(directory: "/o", .failure(.missing(file: "/o"))), .warning, "/o"),
            (.none(isInstalled: true), .warning, "tor.onion_directory"),
            (.none(isInstalled: false), .warning, "apt install tor"),
        ]
        for (check, grade, text) in cases {
            let finding = try #require(check.findings.first)
            #expect(finding.grade == grade && finding.text.contains(text), "\(finding)")
        }
        let damaged = TorCheck.managed(.node, .success(good), problems: ["a key is cut"])
        #expect(damaged.findings.map(\.grade) == [.ok, .failed] && damaged.findings[1].text == "a key is cut")
    }

    @Test func `a port in use is fine only if the node is running`() {
        let endpoint = Endpoint.tcp(host: "127.0.0.1", port: 1)
        let inUse = ListenError(endpoint: endpoint, reason: "x", isInUse: true)
        let impossible = ListenError(endpoint: endpoint, reason: "x")
        let cases: [(ListenError?, LockState, Finding.Grade)] = [
            (nil, .free, .ok), (nil, .held(pid: 1), .warning), (nil, .unknown(reason: "x"), .ok),
            (inUse, .free, .failed), (inUse, .held(pid: nil), .ok), (inUse, .unknown(reason: "x"), .warning),
            (impossible, .free, .failed), (impossible, .held(pid: 1), .failed),
        ]
        for (obstacle, lock, grade) in cases {
            let finding = PortCheck(key: "listen.tnp", endpoint: endpoint, obstacle: obstacle, lock: lock).finding
            #expect(finding.grade == grade, "\(obstacle.debugDescription) \(lock)")
        }
    }

    // MARK: Findings

    @Test func `findings are JSON objects with four fields`() throws {
        let findings = [Finding(.tor, "a \"b\"", .failed, "c/d"), Finding(.clock, "x", .ok, "y")]
        let read = try #require(
            try JSONSerialization.jsonObject(with: Data(findings.json.utf8)) as? [[String: String]])
        #expect(read.count == 2)
        #expect(read[0] == ["area": "tor", "subject": "a \"b\"", "grade": "failed", "text": "c/d"])
        #expect(findings.hasFailure && !findings.suffix(1).map(\.self).hasFailure)
        #expect([Finding]().json.filter { !$0.isWhitespace } == "[]")
    }
}
