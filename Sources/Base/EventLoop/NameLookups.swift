// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Time

extension EventLoop {
    /// Resolves a host without blocking the loop. A numeric address is returned as it is; a name is looked up as the
    /// system does it, with the system's current settings. Addresses of the same family are returned in random order.
    /// - Parameters:
    ///   - policy: chooses the lookups. Each policy limits its own, so that slow names of strangers hold up no others.
    ///   - time: how long to wait for the answer.
    /// - Throws: ``StreamError/unknownHost(_:)`` or ``StreamError/timedOut``.
    func resolve(
        _ host: String, port: UInt16, for policy: AddressPolicy = .any, within time: Duration = .seconds(60),
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [SocketAddress] {
        if let address = SocketAddress(numericHost: host, port: port) { return [address] }
        // The C library's strings end at a byte 0.
        guard (1...NameAnswer.maximumNameLength).contains(host.utf8.count), !host.utf8.contains(0) else {
            throw .unknownHost("\(host.prefix(NameAnswer.maximumNameLength)): not a name")
        }
        let addresses = try await lookups(for: policy).addresses(of: host, within: time)
        var generator = SecureRandom.Generator()
        return addresses.shuffledWithinFamilies(using: &generator).map { SocketAddress($0, port: port) }
    }

    /// The lookups of names under a policy.
    func lookups(for policy: AddressPolicy) -> NameLookups {
        if let present = lookups[policy] { return present }
        let new = NameLookups(NameTable(maximum: policy.maximumLookups), on: self)
        lookups[policy] = new
        return new
    }
}

/// Makes the lookups of names under one policy, as a ``NameTable`` decides. Loop only.
final class NameLookups {
    private struct Caller {
        let continuation: CheckedContinuation<NameTable.Result, Never>
        let timer: Timer
    }

    private unowned let loop: EventLoop
    private var table: NameTable
    private var callers: [UInt64: Caller] = [:]
    private var lastCaller: UInt64 = 0

    init(_ table: NameTable, on loop: EventLoop) { (self.table, self.loop) = (table, loop) }

    /// The addresses of a host.
    /// - Throws: `StreamError`.
    func addresses(
        of host: String, within time: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> [HostAddress] {
        loop.preconditionOnLoop()
        // The loop may serve other callers before the continuation exists, so one call does all the rest.
        return try await withCheckedContinuation { ask(host, within: time, $0) }.get()
    }

    private func ask(
        _ host: String, within time: Duration, _ continuation: CheckedContinuation<NameTable.Result, Never>
    ) {
        lastCaller += 1
        let number = lastCaller
        switch table.ask(host, by: number, within: time, at: .now) {
        case .answer(let result): continuation.resume(returning: result)
        case .wait(let startsLookup, let patience):
            let timer = Timer(on: loop, after: patience) { [unowned self] in
                guard let result = table.leave(host, number, at: .now) else { return }
                callers.removeValue(forKey: number)?.continuation.resume(returning: result)
            }
            callers[number] = Caller(continuation: continuation, timer: timer)
            guard startsLookup else { return }
            loop.nameService.lookUp(host) { [weak self] answer in self?.ended(host, answer) }
        }
    }

    private func ended(_ host: String, _ answer: NameAnswer) {
        let (waiting, result) = table.ended(host, with: answer, at: .now)
        for caller in waiting { callers.removeValue(forKey: caller)?.continuation.resume(returning: result) }
    }
}
