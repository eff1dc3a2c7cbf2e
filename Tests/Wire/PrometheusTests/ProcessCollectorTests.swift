// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct ProcessCollectorTests {
    private let registry = PrometheusRegistry(ProcessCollector.families + [BuildInfo.family])

    private let created = Self.realTime()

    init() { ProcessCollector.register(in: registry) }

    private func figure(_ name: String) throws -> Double { try #require(registry.value(name), "\(name)") }

    // MARK: This process

    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    private static func realTime() -> Double { seconds(of: CLOCK_REALTIME) }
    private static func cpuTime() -> Double { seconds(of: CLOCK_PROCESS_CPUTIME_ID) }

    @Test func `each figure agrees with another system interface`() throws {
        let before = Self.cpuTime()
        let cpu = try figure("process_cpu_seconds_total")
        #expect((before - 0.5...Self.cpuTime() + 0.5).contains(cpu))
        // Other tests allocate and free memory at the same time.
        let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        let resident = try #require(Double(pages[1])) * Double(sysconf(Int32(_SC_PAGESIZE)))
        #expect(resident > 0)
        #expect((resident / 2...resident * 2).contains(try figure("process_resident_memory_bytes")))
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #expect(try figure("process_max_fds") == (limit.rlim_cur == .max ? .infinity : Double(limit.rlim_cur)))
        // Not time(2): its clock is some milliseconds late.
        #expect((created...Self.realTime()).contains(try figure("process_start_time_seconds")))
    }

    @Test func `open descriptors are counted without the one used for counting`() throws {
        func open() -> Double { Double((Int32(0)..<65_536).count { fcntl($0, F_GETFD) >= 0 }) }
        // Other tests open and close descriptors at the same time, so this retries until none does.
        let agrees = try (0..<200).contains { _ in
            let before = open()
            let figure = try figure("process_open_fds")
            return before == figure && figure == open()
        }
        #expect(agrees)
    }

    @Test func `the running version is a label`() {
        BuildInfo.register("1.2.3", in: registry)
        let text = String(decoding: registry.expose(), as: UTF8.self)
        #expect(text.contains("\ntocsin_build_info{version=\"1.2.3\"} 1\n"))
    }
}
