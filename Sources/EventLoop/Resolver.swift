// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc

/// A DNS client with the name servers and hosts file as of its creation, since libevent reads them only then. It lives
/// until it has been replaced and its last lookup has finished.
final class Resolver {
    /// The settings it was created with.
    let settings: ResolverSettings
    /// libevent's DNS client.
    let client: OpaquePointer

    /// - Parameters:
    ///   - settings: taken before the files are read, so that a change during the read is noticed by the next lookup.
    ///   - open: opens the files; `nil` if this process may open them itself.
    init?(on base: OpaquePointer, settings: ResolverSettings, opening open: EventLoop.SystemFileOpener? = nil) {
        let flags = Int32(EVDNS_BASE_DISABLE_WHEN_INACTIVE)
        if let open {
            guard let client = evdns_base_new(base, flags) else { return nil }
            self.client = client
            // Without name servers, the hosts file still applies.
            Self.withFile(ResolverSettings.resolvConf, open) {
                _ = evdns_base_resolv_conf_parse(
                    client, DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC, $0)
            }
            Self.withFile(ResolverSettings.hosts, open) { _ = evdns_base_load_hosts(client, $0) }
        } else if let complete = evdns_base_new(base, flags | EVDNS_BASE_INITIALIZE_NAMESERVERS) {
            client = complete
        } else if let bare = evdns_base_new(base, flags) {
            // No name servers configured: the hosts file still applies.
            evdns_base_load_hosts(bare, ResolverSettings.hosts)
            client = bare
        } else {
            return nil
        }
        self.settings = settings
    }

    deinit { evdns_base_free(client, 0) }

    /// Calls `body` with a path that leads to a file's contents.
    private static func withFile(_ path: String, _ open: EventLoop.SystemFileOpener, _ body: (String) -> Void) {
        guard let descriptor = open(path) else { return body(path) }
        body("/proc/self/fd/\(descriptor)")
        close(descriptor)
    }
}

/// The versions of the files that configure name resolution. If they differ, a file has changed.
struct ResolverSettings: Equatable {
    static let resolvConf = "/etc/resolv.conf"
    static let hosts = "/etc/hosts"

    private let resolvConf: FileVersion?
    private let hosts: FileVersion?

    /// The current versions.
    init(resolvConf: String = Self.resolvConf, hosts: String = Self.hosts) {
        self.resolvConf = FileVersion(of: resolvConf)
        self.hosts = FileVersion(of: hosts)
    }
}

extension [SocketAddress] {
    /// Shuffles the addresses of each family among that family's positions, so that clients spread over a host's
    /// addresses and the order of families is preserved.
    func shuffledWithinFamilies(using generator: inout some RandomNumberGenerator) -> [SocketAddress] {
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
