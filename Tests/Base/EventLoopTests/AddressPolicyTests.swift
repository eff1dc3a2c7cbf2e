// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import EventLoop

@Suite(.tags(.sockets)) struct AddressPolicyTests {
    private func allows(_ text: String) throws -> Bool {
        let address = try #require(SocketAddress(numericHost: text, port: 443))
        #expect(AddressPolicy.foreign.allows(address) == AddressPolicy.publicOnly.allows(address))
        return AddressPolicy.publicOnly.allows(address)
    }

    @Test(arguments: [
        "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
        "198.17.0.1",
        "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00::1", "2001:4860:4860::8888", "64:ff9b::1.1.1.1",
        "2002:101:101::1", "3ffe::1",
    ])
    func `public addresses are allowed`(_ text: String) throws { #expect(try allows(text)) }

    @Test(arguments: [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
        "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:1.1.1.1", "::ffff:0:10.0.0.1",
        "fe80::1",
        "fec0::1", "fc00::1", "fd12:3456::1", "fd00:ec2::254", "ff02::1", "100::1", "2001::1", "2001:1ff::1",
        "2001:db8::1",
        "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:101::1", "3fff::1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b:1::1", "4000::1", "5f00::1",
    ])
    func `addresses of this machine, of private networks and of no network are not`(_ text: String) throws {
        #expect(try !allows(text))
        #expect(AddressPolicy.any.allows(try #require(SocketAddress(numericHost: text, port: 443))))
    }

    @Test func `the address that is dialled is checked, whatever its name`() async throws {
        let loop = EventLoop(name: "policy")
        try await LoopDomain(loop).run { domain in
            let listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: domain.loop) { $0.close() }
            guard case .tcp(_, let port) = listener.endpoint else { return }
            for host in ["localhost", "127.0.0.1", "::ffff:127.0.0.1"] {
                let dialled = try await domain.loop.dial(.tcp(host: host, port: port), timeout: .seconds(60))
                dialled.close()
                for policy in [AddressPolicy.publicOnly, .foreign] {
                    do throws(StreamError) {
                        let forbidden = try await domain.loop.dial(
                            .tcp(host: host, port: port), addresses: policy, timeout: .seconds(60))
                        forbidden.close()
                        Issue.record("dialled")
                    } catch {
                        #expect(error == .forbiddenAddress)
                    }
                }
            }
        }
    }
}
