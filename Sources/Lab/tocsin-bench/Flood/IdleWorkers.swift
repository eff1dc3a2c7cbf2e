// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Synchronization

/// Threads of idle priority, one for each core. They run only when a core has nothing else to do, so that their work
/// hardly slows other threads down, as if it were done on another machine.
final class IdleWorkers: TaskExecutor {
    private let threads = (0..<max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))).map { _ in EventLoop(name: "idle") }
    private let next = Atomic<Int>(0)

    init() {
        for thread in threads { thread.makeIdle() }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        threads[next.wrappingAdd(1, ordering: .relaxed).oldValue % threads.count].enqueue(job)
    }
}

extension EventLoop {
    /// SCHED_IDLE, which Swift's Glibc leaves out.
    private static let idlePolicy: Int32 = 5

    /// Gives the loop's thread idle priority (sched(7), SCHED_IDLE). Jobs queued later have it.
    nonisolated func makeIdle() {
        Task(executorPreference: self) {
            var parameters = sched_param(sched_priority: 0)
            // 0 is the calling thread.
            precondition(sched_setscheduler(0, Self.idlePolicy, &parameters) == 0, "every thread may become idle")
        }
    }
}
