// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc

/// What the lookup of a host's name has led to.
package enum NameAnswer: Equatable, Sendable {
    /// At least one address, in the order in which the system would try them.
    case addresses([HostAddress])
    /// No address, and why.
    /// - Parameter isUnknown: whether the host is known not to exist, or to have no address.
    case failure(String, isUnknown: Bool)

    /// The longest name in bytes (RFC 1035 §2.3.4, as text).
    package static let maximumNameLength = 253
    /// The most addresses in an answer.
    package static let maximumAddresses = 32
}

/// Looks names up without holding up the loop.
package protocol NameService: AnyObject {
    /// Looks a host up.
    /// - Parameter result: receives the answer on the loop, once.
    func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void)
}

/// The system's own way to look names up: its name servers, hosts file, search domains and whatever else nsswitch.conf
/// names. A DNS client of our own would give up where the system continues: after a name server that does not respond,
/// a search domain that fails, an answer that is too long for UDP.
package enum SystemNames {
    /// How many names a process looks up at a time, under all policies together.
    package static let maximumLookups = AddressPolicy.allCases.map(\.maximumLookups).reduce(0, +)

    /// `EAI_NODATA` of <netdb.h>, which Swift's Glibc does not import: the name exists, without an address.
    private static let noData: Int32 = -5

    /// Looks a host up in a thread of its own, which lives until the system has an answer: there is no way to cancel a
    /// lookup, and some take minutes.
    /// - Parameter result: receives the answer in that thread.
    /// - Returns: whether the thread has started; if not, `result` is not called.
    package static func lookUp(_ host: String, _ result: @escaping @Sendable (NameAnswer) -> Void) -> Bool {
        final class Work {
            let host: String
            let result: @Sendable (NameAnswer) -> Void

            init(_ host: String, _ result: @escaping @Sendable (NameAnswer) -> Void) {
                (self.host, self.result) = (host, result)
            }
        }
        let work = Unmanaged.passRetained(Work(host, result))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            {
                let work = Unmanaged<Work>.fromOpaque($0!).takeRetainedValue()
                work.result(SystemNames.answer(for: work.host))
                return nil
            }, work.toOpaque())
        guard error == 0 else {
            work.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    /// Looks a host up in the calling thread, and blocks it until the system has an answer.
    private static func answer(for host: String) -> NameAnswer {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        // One entry for each address, and not one for each kind of socket.
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let reason = code == EAI_SYSTEM ? strerror(errno) : UnsafeMutablePointer(mutating: gai_strerror(code))
            return .failure(
                reason.map { String(cString: $0) } ?? "error \(code)",
                isUnknown: code == EAI_NONAME || code == noData)
        }
        defer { freeaddrinfo(list) }
        var addresses: [HostAddress] = []
        for entry in sequence(first: list, next: { $0?.pointee.ai_next }) {
            guard let entry, addresses.count < NameAnswer.maximumAddresses else { break }
            if let address = entry.pointee.ai_addr.flatMap({ HostAddress($0) }) { addresses.append(address) }
        }
        return addresses.isEmpty ? .failure("no address", isUnknown: true) : .addresses(addresses)
    }
}

/// Looks names up in this process, which must have access to the system's files and name servers. Loop only.
final class SystemNameService: NameService {
    private unowned let loop: EventLoop
    private var results: [UInt64: (NameAnswer) -> Void] = [:]
    private var lastNumber: UInt64 = 0

    init(on loop: EventLoop) { self.loop = loop }

    func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void) {
        lastNumber += 1
        results[lastNumber] = result
        let answered = Answered(service: self, number: lastNumber)
        let hasStarted = SystemNames.lookUp(host) { [loop] answer in
            Task(executorPreference: loop) { answered.service?.received(answer, of: answered.number) }
        }
        if !hasStarted { received(.failure("no thread for the lookup", isUnknown: false), of: lastNumber) }
    }

    private func received(_ answer: NameAnswer, of number: UInt64) { results.removeValue(forKey: number)?(answer) }

    /// The lookup that an answer belongs to. Unchecked: the reference is used on the loop only.
    private struct Answered: @unchecked Sendable {
        weak var service: SystemNameService?
        let number: UInt64
    }
}
