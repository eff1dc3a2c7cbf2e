// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Cryptography
import Glibc
import Time

extension EventLoop {
    /// Resolves a host without blocking the loop. A numeric address is returned as it is; a name is looked up in the
    /// system's hosts file and name servers, with their current settings on every call. Addresses of the same family
    /// are returned in random order.
    /// - Parameters:
    ///   - policy: names that strangers choose have places of their own, so that silent ones hold up no others.
    ///   - time: how long to wait for the answer.
    /// - Throws: ``StreamError/unknownHost(_:)`` or ``StreamError/timedOut``.
    func resolve(
        _ host: String, port: UInt16, for policy: AddressPolicy = .any, within time: Duration = .seconds(60),
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [SocketAddress] {
        if let address = SocketAddress(numericHost: host, port: port) { return [address] }
        let lookups = lookups(for: policy)
        var generator = SecureRandom.Generator()
        return try await lookups.addresses(of: host, within: time).map { $0.with(port: port) }
            .shuffledWithinFamilies(using: &generator)
    }

    private func lookups(for policy: AddressPolicy) -> NameLookups {
        switch policy {
        case .any:
            let lookups = names ?? NameLookups(maximum: NameLookups.maximumConfigured, on: self)
            names = lookups
            return lookups
        case .publicOnly:
            let lookups = foreignNames ?? NameLookups(maximum: NameLookups.maximumForeign, on: self)
            foreignNames = lookups
            return lookups
        }
    }
}

extension SocketAddress {
    fileprivate func with(port: UInt16) -> SocketAddress {
        switch self {
        case .ipv4(var address):
            address.sin_port = port.bigEndian
            return .ipv4(address)
        case .ipv6(var address):
            address.sin6_port = port.bigEndian
            return .ipv6(address)
        case .unix: return self
        }
    }
}

/// The lookups of names for one kind of callers. A host is looked up once for all who wait for it; a lookup for which
/// nobody waits any longer is cancelled; and the addresses that a host had last serve while its lookup fails. Bounded.
/// Loop only.
final class NameLookups {
    /// How many names are looked up at a time: those that the operator chose, and those that strangers chose. libevent makes
    /// two requests for each, of which 64 are in flight at a time.
    static let (maximumConfigured, maximumForeign) = (32, 30)
    /// How long a caller waits for a host whose last addresses are known: so that there is time left to dial them.
    private static let patience = Duration.seconds(3)
    /// How many callers wait at a time.
    private static let maximumCallers = 4096
    /// How many names have their last addresses remembered.
    private static let maximumRemembered = 256

    private typealias Answer = Result<[SocketAddress], StreamError>

    private struct Caller {
        let continuation: CheckedContinuation<Answer, Never>
        let timer: Timer
    }

    private struct Name {
        let lookup: Lookup
        var callers: [UInt64: Caller] = [:]
    }

    /// A lookup in progress. Keeps its DNS client, which must not be freed inside its own callback.
    private final class Lookup {
        let host: String
        let resolver: Resolver
        unowned let owner: NameLookups
        var request: OpaquePointer?

        init(_ host: String, _ resolver: Resolver, _ owner: NameLookups) {
            (self.host, self.resolver, self.owner) = (host, resolver, owner)
        }
    }

    private unowned let loop: EventLoop
    private let maximum: Int
    /// The DNS client for the current settings, created on the first lookup and whenever they change.
    var resolver: Resolver?
    private var names: [String: Name] = [:]
    private var callerCount = 0
    /// How many callers wait.
    var waitingCount: Int { callerCount }
    private var lastCaller: UInt64 = 0
    private var lastGood: [String: [SocketAddress]] = [:]

    /// - Parameter maximum: how many names are looked up at a time.
    init(maximum: Int, on loop: EventLoop) { (self.maximum, self.loop) = (maximum, loop) }

    /// The addresses of a host.
    /// - Throws: `StreamError`.
    func addresses(
        of host: String, within time: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [SocketAddress] {
        loop.preconditionOnLoop()
        guard let resolver = currentResolver() else { return try lastGood(host, or: "out of memory for a DNS client") }
        // Other callers may come before the continuation.
        let answer = await withCheckedContinuation { add($0, to: host, by: resolver, within: time) }
        withExtendedLifetime(resolver) {}
        return try answer.get()
    }

    private func add(
        _ continuation: CheckedContinuation<Answer, Never>, to host: String, by resolver: Resolver,
        within time: Duration
    ) {
        guard names[host] != nil || names.count < maximum, callerCount < Self.maximumCallers else {
            return continuation.resume(returning: answer(for: host, or: "too many names are being looked up"))
        }
        lastCaller += 1
        callerCount += 1
        let patience = lastGood[host] == nil ? time : min(time / 2, Self.patience)
        let timer = Timer(on: loop, after: max(.zero, patience)) { [unowned self, number = lastCaller] in
            leave(host, number)
        }
        let caller = Caller(continuation: continuation, timer: timer)
        if names[host] != nil {
            names[host]!.callers[lastCaller] = caller
        } else {
            let lookup = Lookup(host, resolver, self)
            names[host] = Name(lookup: lookup, callers: [lastCaller: caller])
            start(lookup)
        }
    }

    private func start(_ lookup: Lookup) {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        // The callback may run before evdns_getaddrinfo returns, so it holds a reference of its own.
        let request = evdns_getaddrinfo(
            lookup.resolver.client, lookup.host, nil, &hints,
            { code, list, context in
                let lookup = Unmanaged<Lookup>.fromOpaque(context!).takeRetainedValue()
                lookup.owner.ended(lookup, code, list)
            }, Unmanaged.passRetained(lookup).toOpaque())
        if names[lookup.host]?.lookup === lookup { lookup.request = request }
    }

    private func ended(_ lookup: Lookup, _ code: Int32, _ list: UnsafeMutablePointer<addrinfo>?) {
        lookup.request = nil
        let addresses = Self.addresses(in: list)
        if let list { evutil_freeaddrinfo(list) }
        // A replaced DNS client may be freed only after this callback of its own.
        Task(executorPreference: loop) { [resolver = Held(lookup.resolver)] in withExtendedLifetime(resolver) {} }
        guard names[lookup.host]?.lookup === lookup, let name = names.removeValue(forKey: lookup.host) else { return }
        callerCount -= name.callers.count
        let answer: Answer
        // The host is gone, and so are its addresses.
        if code == EAI_NONAME { lastGood[lookup.host] = nil }
        if addresses.isEmpty {
            answer = self.answer(
                for: lookup.host, or: code != 0 ? String(cString: evutil_gai_strerror(code)) : "no address")
        } else {
            if lastGood.count >= Self.maximumRemembered, lastGood[lookup.host] == nil, let any = lastGood.keys.first {
                lastGood[any] = nil
            }
            lastGood[lookup.host] = addresses
            answer = .success(addresses)
        }
        for caller in name.callers.values { caller.continuation.resume(returning: answer) }
    }

    /// A caller's time is up.
    private func leave(_ host: String, _ caller: UInt64) {
        guard let left = names[host]?.callers.removeValue(forKey: caller) else { return }
        callerCount -= 1
        if let name = names[host], name.callers.isEmpty {
            names[host] = nil
            // Its callback follows, and finds nobody.
            if let request = name.lookup.request { evdns_getaddrinfo_cancel(request) }
        }
        left.continuation.resume(returning: answer(for: host, or: nil))
    }

    private func answer(for host: String, or failure: String?) -> Answer {
        do throws(StreamError) {
            return .success(try lastGood(host, or: failure))
        } catch {
            return .failure(error)
        }
    }

    /// The addresses that a host had last.
    /// - Parameter failure: why its lookup failed; `nil` if there was no answer in time.
    private func lastGood(_ host: String, or failure: String?) throws(StreamError) -> [SocketAddress] {
        if let addresses = lastGood[host] { return addresses }
        guard let failure else { throw .timedOut }
        throw .unknownHost("\(host): \(failure)")
    }

    private func currentResolver() -> Resolver? {
        let settings = ResolverSettings()
        if resolver?.settings != settings {
            resolver = loop.base.flatMap { Resolver(on: $0, settings: settings, opening: loop.openSystemFile) }
        }
        return resolver
    }

    private static func addresses(in list: UnsafeMutablePointer<addrinfo>?) -> [SocketAddress] {
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next?.pointee {
            next = entry.ai_next
            guard let address = entry.ai_addr else { continue }
            switch entry.ai_family {
            case AF_INET: addresses.append(.ipv4(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)))
            case AF_INET6: addresses.append(.ipv6(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self)))
            default: break
            }
        }
        return addresses
    }

    /// Keeps a DNS client until a later job of the loop. Unchecked: the loop made the client, and alone releases it.
    private struct Held: @unchecked Sendable {
        let resolver: Resolver

        init(_ resolver: Resolver) { self.resolver = resolver }
    }
}
