// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import Testing

/// A push server that is none of ours, with encryption and VAPID by others: `push_server.py` or `prosody.py`.
final class PushServerProcess {
    struct Keys: Decodable {
        let port: Int
        /// For onion services; Prosody alone has it.
        let httpPort: Int?
        /// Prosody's alone.
        let endpoint: String?
        let p256dh: String
        let auth: String
    }
    /// What has arrived; Prosody reports the text alone.
    struct Request: Decodable {
        let path: String?
        let ttl: String?
        let urgency: String?
        let topic: String?
        let encoding: String?
        let host: String?
        let port: Int?
        let text: String?
        let vapid: Bool?
        let claims: Claims?
        let error: String?
        struct Claims: Decodable {
            let aud: String
            let sub: String
            let exp: Int64
        }
    }

    private let process = Process()
    private let output: String

    /// - Parameter ports: where Prosody listens, for XMPP, HTTP and HTTPS; `push_server.py` lets the system choose.
    init(_ program: String = "push_server.py", in directory: String, ports: [UInt16] = []) throws {
        output = "\(directory)/push-server.log"
        _ = FileManager.default.createFile(atPath: output, contents: nil)
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-u", "Tests/System/WebPush/\(program)", directory] + ports.map(String.init)
        process.environment = ["PYTHONPATH": ".build/python", "PYTHONDONTWRITEBYTECODE": "1"]
        process.standardOutput = FileHandle(forWritingAtPath: output)
        try process.run()
    }

    private var lines: [Data] {
        (FileManager.default.contents(atPath: output) ?? Data()).split(separator: UInt8(ascii: "\n"))
            .map { Data($0) }
    }

    func keys() async throws -> Keys {
        for _ in 0..<6000 where lines.isEmpty { try await Task.sleep(for: .milliseconds(50)) }
        return try JSONDecoder().decode(Keys.self, from: try #require(lines.first))
    }

    var requests: [Request] {
        get throws { try lines.dropFirst().map { try JSONDecoder().decode(Request.self, from: $0) } }
    }

    /// The process has inherited a mask that blocks all other signals.
    func end() { kill(process.processIdentifier, SIGKILL) }
}

/// Prosody, and the keys of a phone that it serves.
struct Prosody {
    let process: PushServerProcess
    let keys: PushServerProcess.Keys

    /// `nil` where Prosody is not installed, as for `make test`.
    init?(in stage: Stage) async throws {
        guard FileManager.default.fileExists(atPath: "/usr/bin/prosody") else {
            print("SKIPPED: Prosody is not installed; no phone was rung through it (make test-all)")
            return nil
        }
        var ports: [UInt16] = []
        for _ in 0..<3 { ports.append(try await stage.reservePort()) }
        process = try PushServerProcess("prosody.py", in: stage.directory, ports: ports)
        keys = try await process.keys()
    }
}

extension Stage {
    /// Makes the node deliver to the push server at this port, with the certificate that it has written.
    func deliver(toPushServerAt port: Int) async throws {
        let text = try String(contentsOfFile: "\(directory)/tocsin.toml", encoding: .utf8)
        try await reload(Self.delivering(text, toPushServerAt: port))
    }

    /// The configuration of a node that delivers to the push server at this port.
    /// - Parameter onions: whether it also delivers to onion services.
    nonisolated static func delivering(_ configuration: String, toPushServerAt port: Int, onions: Bool = false)
        -> String
    {
        let servers = onions ? "\nservers = [\"*.onion\"]" : ""
        return configuration.replacing(
            /local_servers = [^\n]+\ntrust_file = [^\n]+/,
            with: "local_servers = [\"localhost:\(port)\"]\ntrust_file = \"push.pem\"\(servers)")
    }
}
