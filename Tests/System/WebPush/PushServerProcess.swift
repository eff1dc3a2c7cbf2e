// SPDX-License-Identifier: Apache-2.0

import Foundation
import Simulator
import Testing

/// `push_server.py`: an HTTP/1.1 server whose encryption and VAPID are of others.
final class PushServerProcess {
    struct Keys: Decodable {
        let port: Int
        let p256dh: String
        let auth: String
    }
    struct Request: Decodable {
        let path: String
        let ttl: String?
        let urgency: String?
        let topic: String?
        let encoding: String?
        let host: String?
        let port: Int
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

    init(in directory: String) throws {
        output = "\(directory)/push-server.log"
        _ = FileManager.default.createFile(atPath: output, contents: nil)
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["Tests/System/WebPush/push_server.py", "\(directory)/push.pem"]
        process.environment = ["PYTHONPATH": ".build/python"]
        process.standardOutput = FileHandle(forWritingAtPath: output)
        try process.run()
    }

    private var lines: [Data] {
        (FileManager.default.contents(atPath: output) ?? Data()).split(separator: UInt8(ascii: "\n"))
            .map { Data($0) }
    }

    func keys() async throws -> Keys {
        for _ in 0..<200 where lines.isEmpty { try await Task.sleep(for: .milliseconds(50)) }
        return try JSONDecoder().decode(Keys.self, from: try #require(lines.first))
    }

    var requests: [Request] {
        get throws { try lines.dropFirst().map { try JSONDecoder().decode(Request.self, from: $0) } }
    }

    /// The process has inherited a mask that blocks all other signals.
    func end() { kill(process.processIdentifier, SIGKILL) }
}

extension Stage {
    /// Makes the node deliver to the push server at this port, with the certificate that it has written.
    func deliver(toPushServerAt port: Int) async throws {
        let text = try String(contentsOfFile: "\(directory)/tocsin.toml", encoding: .utf8)
        try await reload(
            text.replacing(
                /local_servers = .*\ntrust_file = .*/,
                with: "local_servers = [\"localhost:\(port)\"]\ntrust_file = \"push.pem\""))
    }
}
