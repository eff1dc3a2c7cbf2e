// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Providers
@testable import TocsinNode

@Suite(.tags(.sockets)) struct ExpiryWarningsTests {
    private typealias Nearness = ExpiryWarnings.Nearness

    private let end: Int64 = 1_800_000_000
    private let day: Int64 = 86_400

    @Test func `a warning is due from 30, 7 and 1 days before expiry, and at expiry`() {
        let times: [(left: Int64, nearness: Nearness?)] = [
            (365 * day, nil), (30 * day + 1, nil), (30 * day, .month), (7 * day + 1, .month), (7 * day, .week),
            (day + 1, .week), (day, .day), (1, .day), (0, .ended), (-day, .ended),
        ]
        for (left, nearness) in times {
            var warnings = ExpiryWarnings()
            let due = warnings.due(for: "push.p12", end: end, now: end - left)
            #expect(due == nearness, "\(left) s left")
        }
    }

    @Test func `each warning is given once`() {
        for interval in [600, 3600, 50_000] {
            var warnings = ExpiryWarnings()
            var given: [Nearness] = []
            for now in stride(from: end - 31 * day, through: end + 2 * day, by: interval) {
                if let due = warnings.due(for: "push.p12", end: end, now: now) { given.append(due) }
            }
            #expect(given == [.month, .week, .day, .ended])
        }
    }

    @Test func `a node that was down gives the nearest warning only`() {
        var warnings = ExpiryWarnings()
        let first = warnings.due(for: "push.p12", end: end, now: end - 20 * day)
        #expect(first == .month)
        let next = warnings.due(for: "push.p12", end: end, now: end - 100)
        #expect(next == .day)
        let late = warnings.due(for: "push.p12", end: end, now: end - 50)
        #expect(late == nil)
    }

    @Test func `a new certificate in the same file has its own warnings`() {
        var warnings = ExpiryWarnings()
        _ = warnings.due(for: "push.p12", end: end, now: end)
        let renewed = warnings.due(for: "push.p12", end: end + 365 * day, now: end)
        #expect(renewed == nil)
        let again = warnings.due(for: "push.p12", end: end + 365 * day, now: end + 335 * day)
        #expect(again == .month)
    }

    @Test func `each file has its own warnings`() {
        var warnings = ExpiryWarnings()
        for file in ["one.p12", "two.p12"] {
            let due = warnings.due(for: file, end: end, now: end - day)
            #expect(due == .day)
        }
    }

    @Test func `a clock that goes back repeats no warning`() {
        var warnings = ExpiryWarnings()
        _ = warnings.due(for: "push.p12", end: end, now: end - day)
        let back = warnings.due(for: "push.p12", end: end, now: end - 20 * day)
        #expect(back == nil)
    }

    @Test func `a nearer expiry compares greater`() {
        #expect(Nearness.month < .week && Nearness.week < .day && Nearness.day < .ended)
    }
}

@Suite(.tags(.sockets)) struct CredentialWatchTests {
    /// The present versions of these files.
    private func versions(_ files: [String]) -> [String: FileVersion?] {
        var versions: [String: FileVersion?] = [:]
        for file in files { versions[file] = FileVersion(of: file) }
        return versions
    }

    @Test func `a change between the read and the start of the watch is detected`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        let before = versions([directory.path("a.p8")])
        try directory.write("another", to: "a.p8")
        var watch = CredentialWatch(before)
        let hasChanged = watch.hasChanged()
        #expect(hasChanged)
    }

    @Test func `unchanged files are not reported`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        try directory.write("two", to: "b.p12")
        var watch = CredentialWatch(versions([directory.path("a.p8"), directory.path("b.p12")]))
        for _ in 0..<3 {
            let hasChanged = watch.hasChanged()
            #expect(!hasChanged)
        }
    }

    @Test func `an empty watch reports no change`() {
        var watch = CredentialWatch()
        let hasChanged = watch.hasChanged()
        #expect(!hasChanged)
    }

    @Test func `a rewritten file is reported once`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        try directory.write("another", to: "a.p8")
        let first = watch.hasChanged()
        #expect(first)
        let second = watch.hasChanged()
        #expect(!second)
    }

    @Test func `a change that could not be used is reported again, also by a watch that has not reported yet`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        try directory.write("another", to: "a.p8")
        #expect((0..<3).map { _ in watch.hasChanged() } == [true, false, false])
        watch.reportAgain()
        #expect((0..<2).map { _ in watch.hasChanged() } == [true, false])
        var fresh = CredentialWatch(versions([directory.path("a.p8")]))
        fresh.reportAgain()
        #expect((0..<2).map { _ in fresh.hasChanged() } == [true, false])
    }

    @Test func `replacement by a file of the same size is detected`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        try directory.write("two", to: "new")
        #expect(rename(directory.path("new"), directory.path("a.p8")) == 0)
        let hasChanged = watch.hasChanged()
        #expect(hasChanged)
    }

    @Test func `a changed symbolic link is detected`() throws {
        let directory = try Directory()
        try directory.write("one", to: "one.p8")
        try directory.write("two", to: "two.p8")
        #expect(symlink(directory.path("one.p8"), directory.path("a.p8")) == 0)
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        #expect(unlink(directory.path("a.p8")) == 0)
        #expect(symlink(directory.path("two.p8"), directory.path("a.p8")) == 0)
        let hasChanged = watch.hasChanged()
        #expect(hasChanged)
    }

    @Test func `removal and creation of a file are detected`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        #expect(unlink(directory.path("a.p8")) == 0)
        let gone = watch.hasChanged()
        #expect(gone)
        let stillGone = watch.hasChanged()
        #expect(!stillGone)
        try directory.write("one", to: "a.p8")
        let back = watch.hasChanged()
        #expect(back)
    }

    @Test func `several changes are reported together`() throws {
        let directory = try Directory()
        let files = (0..<5).map { "\($0).p8" }
        for file in files { try directory.write("one", to: file) }
        var watch = CredentialWatch(versions(files.map(directory.path)))
        for file in files { try directory.write("another", to: file) }
        let first = watch.hasChanged()
        #expect(first)
        let second = watch.hasChanged()
        #expect(!second)
    }

    @Test func `a change of permissions is detected`() throws {
        let directory = try Directory()
        try directory.write("one", to: "a.p8")
        #expect(chmod(directory.path("a.p8"), 0o644) == 0)
        var watch = CredentialWatch(versions([directory.path("a.p8")]))
        // Longer than the resolution of the file system's timestamps.
        usleep(20_000)
        #expect(chmod(directory.path("a.p8"), 0o600) == 0)
        let hasChanged = watch.hasChanged()
        #expect(hasChanged)
    }
}

@Suite(.tags(.sockets)) struct ProviderTokenFileTests {
    private let token = Array("eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl".utf8)

    @Test func `a saved token is loaded`() throws {
        let directory = try Directory()
        let file = ProviderTokenFile(path: directory.path("apns.token"))
        #expect(file.load() == nil)
        file.save(token)
        #expect(file.load() == token)
        file.save(Array("another".utf8))
        #expect(file.load() == Array("another".utf8))
        #expect(directory.names == ["apns.token"])
    }

    @Test func `the token file is accessible to its owner only`() throws {
        let directory = try Directory()
        let file = ProviderTokenFile(path: directory.path("apns.token"))
        for _ in 0..<2 {
            file.save(token)
            var status = stat()
            let result = stat(directory.path("apns.token"), &status)
            #expect(result == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }

    @Test func `an empty or partial file is not a token`() throws {
        let directory = try Directory()
        try directory.write("half", to: "apns.token.new")
        try directory.write("", to: "apns.token")
        let file = ProviderTokenFile(path: directory.path("apns.token"))
        #expect(file.load() == nil)
        file.save(token)
        #expect(file.load() == token)
        #expect(directory.names == ["apns.token"])
    }

    @Test func `a symbolic link is not followed`() throws {
        let directory = try Directory()
        try directory.write("elsewhere", to: "target")
        #expect(symlink(directory.path("target"), directory.path("apns.token")) == 0)
        let file = ProviderTokenFile(path: directory.path("apns.token"))
        #expect(file.load() == nil)
        file.save(token)
        #expect(file.load() == token)
        #expect(try directory.read("target") == "elsewhere")
    }

    @Test func `a failure to save is ignored`() throws {
        let directory = try Directory()
        let file = ProviderTokenFile(path: directory.path("missing/apns.token"))
        file.save(token)
        #expect(file.load() == nil)
    }
}

// MARK: - Helpers

/// A temporary directory, removed with this object.
private final class Directory {
    private let root: String

    init() throws {
        root = FileManager.default.temporaryDirectory.appending(path: "tocsin-credentials-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).sorted() }

    func path(_ name: String) -> String { "\(root)/\(name)" }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
    }

    func read(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path(name))), as: UTF8.self)
    }
}
