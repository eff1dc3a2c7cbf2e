// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Cryptography
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import Console
@testable import Tor
@testable import tocsin

@Suite(.tags(.node)) struct PairCommandTests {
    /// Parses the arguments and runs the command, as the command line does.
    private func pair(_ arguments: [String]) async throws {
        var command = try PairCommand.parseAsRoot(arguments)
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            try command.run()
        }
    }

    private func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-pair-\(UUID().uuidString.prefix(8))").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    /// Decrypts an envelope as a phone with this key does, without the simulator's code.
    private func open(_ encrypted: String, _ pairing: PairingToken) throws -> String {
        let parts = encrypted.split(separator: "|")
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let ciphertext = try #require(Base64.decode(Array(parts[2].utf8)))
        let clearText = try #require(AES256CBC.decrypt(ciphertext, key: key, iv: Array(parts[1].utf8)))
        return String(decoding: clearText, as: UTF8.self)
    }

    @Test(arguments: Magic.appleAndGoogle)
    func `confirm reaches the phone with a sound, erase without one`(_ magic: Magic) async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        let options = ["--node", "\(stage.socket)", "--direct", "--timeout", "20"]
        try await pair(["confirm", phone.pairingToken] + options)
        try await pair(["erase", phone.pairingToken, "--yes"] + options)
        let received = await stage.services.received.filter { $0.deviceToken == phone.pairing.deviceToken }
        try #require(received.count == 2)
        #expect(received.map(\.hasSound) == [true, false])
        for (notification, type) in zip(received, ["SETUP_CONFIRMATION", "ERASE"]) {
            let text = try open(notification.encrypted, phone.pairing)
            #expect(text.contains("\"title\":\"\",\"message\":\"\",\"type\":\"\(type)\""))
        }
        // Both were signed with the pairing's sender key, which is now bound to the phone.
        let unsigned = try await stage.client().submit(stage.envelope(for: phone), timeout: .seconds(60))
        #expect(unsigned.reason == .senderKeyRequired)
        await stage.end()
    }

    @Test func `confirm and erase report failures with the exit codes of send`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0")
        let phone = Phone.new(.iOS, model: "test")
        let options = ["--node", "\(stage.socket)", "--direct", "--no-key", "--timeout", "20"]
        await #expect(throws: ExitCode.rejected) { try await pair(["confirm", phone.pairingToken] + options) }
        let gone = Device(
            platform: .apnsProduction, app: "bisqremote.joachimneumann.com", state: .unregistered(since: 1))
        let uninstalled = Phone.new(.iOS, model: "test")
        await stage.services.set(gone, for: uninstalled.pairing.deviceToken)
        await #expect(throws: ExitCode.gone) { try await pair(["erase", uninstalled.pairingToken, "--yes"] + options) }
        let nowhere = ["--node", "127.0.0.1:1", "--direct", "--no-key", "--timeout", "0"]
        await #expect(throws: ExitCode.unreachable) { try await pair(["confirm", phone.pairingToken] + nowhere) }
        await #expect(throws: ExitCode.usage) { try await pair(["confirm", "iOS|x|y|z"] + options) }
        await #expect(throws: ExitCode.usage) { try await pair(["confirm", phone.pairingToken, "--node", "x"]) }
        await stage.end()
    }

    @Test func `erase requires a yes`() {
        for answer in [nil, "", "no", "yes please", " "] { #expect(!PairErase.isYes(answer)) }
        for answer in ["yes", "YES", "y"] { #expect(PairErase.isYes(answer)) }
    }

    @Test func `read accepts a valid pairing token and exits with 65 for an invalid one`() async throws {
        let token = Phone.new(.android, model: "Pixel 8").pairingToken
        try await pair(["read", token])
        try await pair(["read", token + "\n"])
        await #expect(throws: ExitCode.rejected) { try await pair(["read", String(token.dropFirst())]) }
        await #expect(throws: ExitCode.rejected) { try await pair(["read", ""]) }
    }

    @Test func `the table lists each part and each app, but neither key nor device token`() throws {
        let phone = Phone.new(.android, model: "Pixel 8")
        let parts = phone.pairingToken.split(separator: "|")
        let lines = PairingTable(PairingReview(phone.pairingToken)).lines
        for name in ["magic", "descriptor", "key", "device token"] {
            #expect(lines.contains { $0.hasPrefix(name) && $0.hasSuffix(" ok") })
        }
        #expect(lines.contains { $0.hasPrefix("descriptor") && $0.contains("Pixel 8") })
        for app in PairingReview.App.allCases { #expect(lines.contains { $0.hasPrefix(app.rawValue) }) }
        let all = lines.joined(separator: "\n")
        #expect(!all.contains(parts[2]) && !all.contains(parts[3]))
        let broken = PairingTable(PairingReview("iOS")).lines
        #expect(broken.contains { $0.hasPrefix("key") && $0.hasSuffix("missing") })
        #expect(broken.contains { $0.hasPrefix("hint: ") })
        #expect(
            PairingTable(PairingReview(String(repeating: "x", count: PairingReview.maximumTextLength + 1))).lines.count
                == 1)
    }

    @Test(arguments: Magic.allCases)
    func `the QR code that show writes contains a valid pairing token`(_ magic: Magic) async throws {
        try await withDirectory { directory in
            let file = "\(directory)/pairing.png"
            try await pair(["show", "--magic", magic.rawValue, "--model", "Phone 8", "--png", file])
            var status = stat()
            try #require(stat(file, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            guard let text = try await scan(file) else { return }
            let pairing = try PairingToken(text)
            #expect(pairing.magic == magic && pairing.descriptor == "Phone 8")
            // The QR code of that token has the same text.
            let copy = "\(directory)/copy.png"
            try await pair(["show", "--token", text, "--png", copy])
            let isSame = try await scan(copy) == text
            #expect(isSame)
        }
    }

    /// The text that zbarimg reads; `nil` if it is not installed.
    private func scan(_ file: String) async throws -> String? {
        guard try await ChildProcess.output(of: "which", ["zbarimg"]).isSuccess else {
            print("SKIPPED: zbarimg is not installed; no QR code was read back")
            return nil
        }
        // On a machine without D-Bus zbarimg writes warnings to standard error.
        let command = "exec zbarimg --quiet --raw --oneshot -Sdisable -Sqrcode.enable \"$0\" 2>/dev/null"
        return try await ChildProcess.output(of: "sh", ["-c", command, file]).text
            .split(whereSeparator: \.isNewline).joined()
    }

    @Test func `show overwrites a file only with --force, and nothing but regular files`() async throws {
        try await withDirectory { directory in
            let file = "\(directory)/pairing.png"
            try Data("mine".utf8).write(to: URL(filePath: file))
            try #require(chmod(file, 0o644) == 0)
            await #expect(throws: ExitCode.configuration) { try await pair(["show", "--png", file]) }
            #expect(try Data(contentsOf: URL(filePath: file)) == Data("mine".utf8))
            try await pair(["show", "--png", file, "--force"])
            #expect(try Data(contentsOf: URL(filePath: file)).starts(with: [0x89, 0x50, 0x4E, 0x47]))
            var status = stat()
            try #require(stat(file, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            let link = "\(directory)/link.png"
            try #require(symlink(file, link) == 0)
            for path in [link, directory, "\(directory)/none/x.png"] {
                await #expect(throws: ExitCode.configuration) { try await pair(["show", "--png", path, "--force"]) }
            }
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["link.png", "pairing.png"])
        }
    }

    @Test func `show rejects invalid pairing tokens and contradictory options`() async throws {
        await #expect(throws: ExitCode.rejected) { try await pair(["show", "--token", "iOS|x|y|z"]) }
        let token = Phone.new(.iOS, model: "x").pairingToken
        for arguments in [
            ["--token", token, "--magic", "iOS"], ["--token", token, "--model", "x"], ["--force"], ["--model", "a|b"],
            ["--model", ""], ["--model", "a\u{1B}b"], ["--model", String(repeating: "x", count: 65)],
            ["--magic", "ios"],
            ["--png", ""],
        ] {
            #expect(throws: (any Error).self) { _ = try PairCommand.parseAsRoot(["show"] + arguments) }
        }
        #expect(try PairCommand.parseAsRoot(["show", "--token", "-"]) is PairShow)
    }

    @Test func `every command that sends checks the shared options`() throws {
        let token = Phone.new(.iOS, model: "x").pairingToken
        for command in ["confirm", "erase"] {
            for wrong in [["--max-work=-1"], ["--format", "aes"], ["--ttl=-1"]] {
                #expect(throws: (any Error).self) {
                    _ = try PairCommand.parseAsRoot([command, token, "--node", "a:1"] + wrong)
                }
            }
            #expect(throws: (any Error).self) { _ = try PairCommand.parseAsRoot([command, token]) }
        }
        #expect(throws: (any Error).self) { _ = try SendCommand.parse([token, "--node", "a:1", "--max-work=-1"]) }
        let send = try SendCommand.parse(["-", "--node", "a:1", "--queue", "--silent", "--ttl", "7", "--type", "OFFER"])
        #expect(send.delivery.queue && send.delivery.ttl == 7 && send.silent && send.type == .offer)
        #expect(
            send.delivery.connection.timeout == 120 && send.delivery.connection.maxWork == 60
                && send.delivery.connection.tor == "127.0.0.1:9050")
    }
}
