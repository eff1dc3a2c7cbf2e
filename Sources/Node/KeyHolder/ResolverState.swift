// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import Time

/// Decides when the node starts another resolver, and what becomes of each lookup. Events in, actions out; the time and the
/// versions of the system's files are parameters.
struct ResolverState<Files: Equatable> {
    enum Action: Equatable {
        /// Start a resolver in place of the present one, and report ``started()`` or ``ended(_:)``.
        case start
        /// Ask the resolver for this host.
        case send(UInt64, host: String)
        /// The answer to a lookup, which has ended.
        case answer(UInt64, NameAnswer)
        /// End the resolver, and start none yet.
        case end
    }

    /// How long a lookup may take. The system asks each name server twice, for 5 seconds, unless resolv.conf says more.
    static var maximumLookup: Duration { .seconds(60) }

    private struct Lookup {
        let host: String
        let end: MonotonicTime
    }

    /// The files at the start of the present resolver; `nil` if there is none.
    private var files: Files?
    private var lookups: [UInt64: Lookup] = [:]
    private var lastNumber: UInt64 = 0
    /// Fewer than the supervisor allows: if that refused a start, the node would have none.
    private var starts = UseLimit(burst: 8, perSecond: 0.1)

    /// A host is to be looked up.
    /// - Parameter present: the files now.
    /// - Returns: the lookup's number, and what to do.
    mutating func lookUp(_ host: String, files present: Files, at now: MonotonicTime) -> (UInt64, [Action]) {
        lastNumber += 1
        lookups[lastNumber] = Lookup(host: host, end: now + Self.maximumLookup)
        return (lastNumber, replacement(files: present, at: now) ?? [.send(lastNumber, host: host)])
    }

    /// A second has passed: lookups that take too long end, and a change of the files counts for those that wait.
    mutating func secondPassed(files present: @autoclosure () -> Files, at now: MonotonicTime) -> [Action] {
        guard !lookups.isEmpty else { return [] }
        let late = lookups.filter { $0.value.end <= now }.keys.sorted()
        let actions = late.flatMap { answered($0, .failure("no answer in time", isUnknown: false)) }
        if !lookups.isEmpty {
            return actions + (replacement(files: present(), isHanging: !late.isEmpty, at: now) ?? [])
        }
        files = nil
        return actions + [.end]
    }

    /// A resolver has been started.
    func started() -> [Action] { lookups.sorted { $0.key < $1.key }.map { .send($0.key, host: $0.value.host) } }

    /// A lookup has an answer, or could not be asked for.
    mutating func answered(_ number: UInt64, _ answer: NameAnswer) -> [Action] {
        lookups.removeValue(forKey: number) == nil ? [] : [.answer(number, answer)]
    }

    /// There is no resolver any more, or none could be started.
    mutating func ended(_ reason: String) -> [Action] {
        files = nil
        return lookups.keys.sorted().flatMap { answered($0, .failure(reason, isUnknown: false)) }
    }

    /// - Parameter isHanging: whether lookups that hang occupy threads of the present resolver.
    /// - Returns: what to do to replace the present resolver, or to start the first one; `nil` if the present one
    ///   serves.
    private mutating func replacement(
        files present: Files, isHanging: Bool = false, at now: MonotonicTime
    ) -> [Action]? {
        if files == present, !isHanging { return nil }
        guard starts.take(at: now) else { return files == nil ? ended("the node's resolver ends too often") : nil }
        files = present
        return [.start]
    }
}
