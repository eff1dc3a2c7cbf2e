import Cryptography
import Foundation
import TNP
import Testing

@testable import tocsin

@Suite struct SenderKeysTests {
    private let token = String(repeating: "ab", count: 32)

    private func withDirectory(_ body: (SenderKeys) async throws -> Void) async throws {
        let parent = URL.temporaryDirectory.appending(path: "tocsin-keys-\(UUID().uuidString.prefix(8))").path()
        defer { try? FileManager.default.removeItem(atPath: parent) }
        try await body(SenderKeys(directory: "\(parent)/tocsin/senders"))
    }

    private func mode(_ path: String) throws -> mode_t {
        var status = stat()
        try #require(stat(path, &status) == 0)
        return status.st_mode & 0o777
    }

    private func write(_ text: String, to file: String, mode: mode_t = 0o600) throws {
        try Data(text.utf8).write(to: URL(filePath: file))
        try #require(chmod(file, mode) == 0)
    }

    @Test func `a phone of Apple's is one phone, however its token is written`() async throws {
        try await withDirectory { keys in
            #expect(keys.file(for: token) == keys.file(for: token.uppercased()))
            #expect(keys.file(for: "f:Ab") != keys.file(for: "f:aB"))
        }
    }

    @Test func `what a node says cannot write over the terminal`() {
        #expect("good\u{1B}[2Kbad\r\u{9B}1mé ✓".printable == "good[2Kbad1mé ✓")
    }

    @Test func `a phone's key is made once and found again`() async throws {
        try await withDirectory { keys in
            let first = try keys.key(for: token)
            #expect(try keys.key(for: token).publicKey == first.publicKey)
            #expect(try SenderKeys(directory: keys.directory).key(for: token).publicKey == first.publicKey)
            #expect(try keys.key(for: token + "c").publicKey != first.publicKey)
            #expect(try FileManager.default.contentsOfDirectory(atPath: keys.directory).count == 2)
        }
    }

    @Test func `a key file is named by a hash, and nobody else may look into it or its directory`() async throws {
        try await withDirectory { keys in
            _ = try keys.key(for: token)
            // printf 'tocsin-sender%s' TOKEN | b2sum -l 256 | head -c 32
            #expect(keys.file(for: token) == "\(keys.directory)/ed70f7f0ad42e8139942eb11bfd0aae9.key")
            #expect(try mode(keys.file(for: token)) == 0o600)
            #expect(try mode(keys.directory) == 0o700)
            let text = try String(contentsOfFile: keys.file(for: token), encoding: .utf8)
            #expect(text.hasSuffix("\n"))
            let seed = try #require(Hex.decode(text.dropLast().utf8))
            #expect(Ed25519.PrivateKey(seed: seed)?.publicKey == (try keys.key(for: token).publicKey))
        }
    }

    @Test func `those who make a phone's key at the same time all get the same one`() async throws {
        try await withDirectory { keys in
            let made = try await withThrowingTaskGroup(of: [UInt8].self) { group in
                for _ in 0..<32 { group.addTask { try keys.key(for: token).publicKey } }
                return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
            }
            #expect(made.count == 1)
            #expect(try FileManager.default.contentsOfDirectory(atPath: keys.directory).count == 1)
        }
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o602] as [mode_t])
    func `a key file that is open to others is refused`(_ mode: mode_t) async throws {
        try await withDirectory { keys in
            _ = try keys.key(for: token)
            let file = keys.file(for: token)
            try #require(chmod(file, mode) == 0)
            let error = #expect(throws: SenderKeyError.readableByOthers(file: file)) { try keys.key(for: token) }
            #expect(error?.description.contains("chmod 600 \(file)") == true)
        }
    }

    @Test func `a broken key file is refused and left as it is`() async throws {
        let digits = String(repeating: "0f", count: 32)
        try await withDirectory { keys in
            _ = try keys.key(for: "another")
            let file = keys.file(for: token)
            for text in [
                "", "\n", digits.dropLast() + "\n", digits + "0\n", digits + "00\n", digits + "\n\n",
                "g" + digits.dropFirst(),
            ] {
                try write(String(text), to: file)
                let error = #expect(throws: SenderKeyError.broken(file: file)) { try keys.key(for: token) }
                #expect(error?.description.contains("0f0f") == false)
                #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
            }
            for text in [digits, digits + "\n", digits.uppercased() + "\n"] {
                try write(text, to: file)
                #expect(try keys.key(for: token).publicKey.count == 32)
            }
        }
    }

    @Test func `what is no file is no key, and nobody waits for it`() async throws {
        try await withDirectory { keys in
            _ = try keys.key(for: "another")
            let file = keys.file(for: token)
            try #require(mkfifo(file, 0o600) == 0)
            #expect(throws: SenderKeyError.broken(file: file)) { try keys.key(for: token) }
            try #require(unlink(file) == 0 && mkdir(file, 0o700) == 0)
            #expect(throws: SenderKeyError.broken(file: file)) { try keys.key(for: token) }
        }
    }

    @Test func `a directory that cannot be made is named`() async throws {
        try await withDirectory { keys in
            _ = try keys.key(for: token)
            let below = SenderKeys(directory: "\(keys.file(for: token))/senders")
            let error = #expect(throws: SenderKeyError.self) { try below.key(for: token) }
            #expect(error?.description.contains(below.directory) == true)
            #expect(error?.description.contains("--no-key") == true)
        }
    }

    @Test func `keys lie where XDG says, else under HOME`() {
        let home = "/home/me/.local/share/tocsin/senders"
        #expect(SenderKeys.defaultDirectory(["XDG_DATA_HOME": "/data", "HOME": "/home/me"]) == "/data/tocsin/senders")
        #expect(SenderKeys.defaultDirectory(["HOME": "/home/me"]) == home)
        #expect(SenderKeys.defaultDirectory(["XDG_DATA_HOME": "", "HOME": "/home/me"]) == home)
        #expect(SenderKeys.defaultDirectory(["XDG_DATA_HOME": "data", "HOME": "/home/me"]) == home)
        #expect(SenderKeys.defaultDirectory(["HOME": ""]) == nil)
        #expect(SenderKeys.defaultDirectory([:]) == nil)
    }
}

@Suite struct OutcomeWordsTests {
    @Test func `a refusal for the sender key says what it means`() {
        let other = OutcomeWords(.rejected(.notThisSenderKey)).why
        #expect(other.contains("(reason 206)"))
        #expect(other.contains("this phone is bound to another sender key"))
        let needed = OutcomeWords(.rejected(.senderKeyNeeded)).why
        #expect(needed.contains("(reason 205)"))
        #expect(needed.contains("--no-key"))
        #expect(OutcomeWords(.rejected(.ivReused, text: "no")).why == "no (reason 208)")
    }

    @Test func `what is left is said where it is nothing or was too little`() {
        var outcome = Outcome.delivered()
        #expect(OutcomeWords(outcome).allowance == nil)
        outcome.left = 1
        outcome.fullIn = 1500
        #expect(OutcomeWords(outcome).allowance == nil)
        outcome.left = 0
        #expect(OutcomeWords(outcome).allowance == "0 more to this phone now; full again in 2 s")
        outcome = .retry(.deviceTokenOverRate, after: 1)
        #expect(OutcomeWords(outcome).allowance == nil)
        outcome.left = 3
        #expect(OutcomeWords(outcome).allowance == "3 more to this phone now")
    }

    @Test func `when to try again is never sooner than the node said`() {
        #expect(OutcomeWords(.retry(.nodeBusy, after: 0)).when == "later")
        #expect(OutcomeWords(.retry(.nodeBusy, after: 1)).when == "in 1 s")
        #expect(OutcomeWords(.retry(.nodeBusy, after: 2001)).when == "in 3 s")
        #expect(OutcomeWords(.retry(.nodeBusy, after: .max)).when == "in 4294968 s")
    }
}
