// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc

extension EventLoop {
    /// The addresses of a host: of a number at once, of a name by the system's hosts file and name servers as they are
    /// now, anew at each call and without blocking the loop. Those of one family come in a new order each time.
    /// - Throws: ``StreamError/unknownHost(_:)``.
    func resolve(
        _ host: String, port: UInt16, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [SocketAddress] {
        if let address = SocketAddress(numericHost: host, port: port) { return [address] }
        guard let resolver = currentResolver() else { throw .unknownHost("\(host): no memory for a DNS client") }
        let lookup = Lookup()
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        await withCheckedContinuation { continuation in
            lookup.continuation = continuation
            // The callback may come before the call returns, so the lookup is retained for it.
            evdns_getaddrinfo(
                resolver.client, host, String(port), &hints,
                { code, list, context in
                    Unmanaged<Lookup>.fromOpaque(context!).takeRetainedValue().finished(code, list)
                }, Unmanaged.passRetained(lookup).toOpaque())
        }
        // It may have been replaced meanwhile, and is freed here at the earliest: not in a callback of its own.
        withExtendedLifetime(resolver) {}
        if lookup.addresses.isEmpty { throw .unknownHost("\(host): \(lookup.failure)") }
        var generator = SystemRandomNumberGenerator()
        return lookup.addresses.spread(using: &generator)
    }

    /// The resolver for the present settings: a new one at the first name and whenever they have changed.
    private func currentResolver() -> Resolver? {
        let settings = NameSettings()
        if resolver?.settings != settings { resolver = Resolver(on: base, settings: settings) }
        return resolver
    }
}

/// A DNS client with the name servers and the hosts file of the moment it was made, as libevent reads them only then.
/// It lives until it has been replaced and its last lookup is over.
final class Resolver {
    /// What it was made from.
    let settings: NameSettings
    /// libevent's own.
    let client: OpaquePointer

    /// - Parameter settings: taken before, so that a change while the files are read is noticed the next time.
    init?(on base: OpaquePointer, settings: NameSettings) {
        let flags = Int32(EVDNS_BASE_DISABLE_WHEN_INACTIVE)
        if let complete = evdns_base_new(base, flags | EVDNS_BASE_INITIALIZE_NAMESERVERS) {
            client = complete
        } else if let bare = evdns_base_new(base, flags) {
            // No name servers configured: the hosts file still counts.
            evdns_base_load_hosts(bare, "/etc/hosts")
            client = bare
        } else {
            return nil
        }
        self.settings = settings
    }

    deinit { evdns_base_free(client, 0) }
}

/// The state of the files that say how names are resolved. Where it differs from an earlier one, a file has changed.
struct NameSettings: Equatable {
    private let resolvConf: FileVersion?
    private let hosts: FileVersion?

    /// The present state.
    init(resolvConf: String = "/etc/resolv.conf", hosts: String = "/etc/hosts") {
        self.resolvConf = FileVersion(of: resolvConf)
        self.hosts = FileVersion(of: hosts)
    }
}

extension [SocketAddress] {
    /// The same addresses, each family's shuffled among its own places: whoever offers many wants his callers spread
    /// over them, and which family comes first stays as it was.
    func spread(using generator: inout some RandomNumberGenerator) -> [SocketAddress] {
        var families = Dictionary(grouping: shuffled(using: &generator), by: \.family)
        return compactMap { families[$0.family]?.popLast() }
    }
}

extension SocketAddress {
    fileprivate var family: Int32 {
        switch self {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        case .unix: AF_UNIX
        }
    }
}

/// One name on its way to its addresses.
private final class Lookup {
    var continuation: CheckedContinuation<Void, Never>?
    var addresses: [SocketAddress] = []
    var failure = "no address"

    func finished(_ code: Int32, _ list: UnsafeMutablePointer<addrinfo>?) {
        if code != 0 { failure = String(cString: evutil_gai_strerror(code)) }
        var next = list
        while let entry = next?.pointee {
            next = entry.ai_next
            guard let address = entry.ai_addr else { continue }
            switch entry.ai_family {
            case AF_INET:
                addresses.append(
                    .ipv4(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)))
            case AF_INET6:
                addresses.append(
                    .ipv6(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self)))
            default: break
            }
        }
        if let list { evutil_freeaddrinfo(list) }
        continuation?.resume()
    }
}
