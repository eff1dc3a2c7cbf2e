import CLibevent
import Glibc

extension EventLoop {
    /// The addresses of a host: of a number at once, of a name by the system's hosts file and name servers, anew at each
    /// call and without blocking the loop.
    /// - Throws: ``StreamError/unknownHost(_:)``.
    func resolve(
        _ host: String, port: UInt16, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [SocketAddress] {
        if let address = SocketAddress(numericHost: host, port: port) { return [address] }
        let lookup = Lookup()
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        let resolver = nameClient()
        await withCheckedContinuation { continuation in
            lookup.continuation = continuation
            // The callback may come before the call returns, so the lookup is retained for it.
            evdns_getaddrinfo(
                resolver, host, String(port), &hints,
                { code, list, context in
                    Unmanaged<Lookup>.fromOpaque(context!).takeRetainedValue().finished(code, list)
                }, Unmanaged.passRetained(lookup).toOpaque())
        }
        if lookup.addresses.isEmpty { throw .unknownHost("\(host): \(lookup.failure)") }
        return lookup.addresses
    }

    private func nameClient() -> OpaquePointer? {
        if let resolver { return resolver }
        let flags = Int32(EVDNS_BASE_DISABLE_WHEN_INACTIVE)
        if let complete = evdns_base_new(base, flags | EVDNS_BASE_INITIALIZE_NAMESERVERS) {
            resolver = complete
        } else {
            // No name servers configured: the hosts file still counts.
            resolver = evdns_base_new(base, flags)
            if let resolver { evdns_base_load_hosts(resolver, "/etc/hosts") }
        }
        return resolver
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
