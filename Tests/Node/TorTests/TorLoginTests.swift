// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import TestSupport
import Testing

@testable import Tor

/// Authentication at a control port, which another program than tor may have opened.
@Suite(.tags(.sockets)) struct TorLoginTests {
    /// The error for a control port that offers these authentication methods.
    private func failure(offering auth: String) async throws -> String {
        let loop = EventLoop(name: "test")
        return try await withDirectory { directory in
            let endpoint = Endpoint.unix(path: "\(directory)/control")
            return try await LoopDomain(loop).run { domain in
                var streams: [ByteStream] = []
                let listener = try Listener(endpoint, on: domain.loop) { stream in
                    stream.write(
                        Array(
                            "250-PROTOCOLINFO 1\r\n250-AUTH \(auth)\r\n250-VERSION Tor=\"0.4.9.11\"\r\n250 OK\r\n".utf8)
                    )
                    streams.append(stream)
                }
                defer {
                    for stream in streams { stream.close() }
                    withExtendedLifetime(listener) {}
                }
                do {
                    _ = try await TorControl.open(endpoint, on: domain.loop)
                    return "authenticated"
                } catch {
                    return "\(error)"
                }
            }
        }
    }

    @Test func `a control port without authentication is rejected`() async throws {
        let text = try await failure(offering: "METHODS=NULL")
        #expect(text.contains("requires no authentication") && text.contains("CookieAuthentication 1"))
    }

    @Test func `a control port without cookie authentication fails with a remedy`() async throws {
        #expect(try await failure(offering: "METHODS=HASHEDPASSWORD").contains("CookieAuthentication 1"))
    }

    @Test(.enabled(if: geteuid() == 0, "only root can change the owner of a file"))
    func `a cookie file of another user is rejected`() async throws {
        try await withDirectory { directory in
            let cookie = "\(directory)/cookie"
            try write([UInt8](repeating: 7, count: 32), to: cookie)
            try #require(chown(cookie, 65_534, 65_534) == 0)
            let text = try await failure(offering: "METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"\(cookie)\"")
            #expect(text.contains("belongs neither to this user nor to root nor to tor's user"))
        }
    }
}
