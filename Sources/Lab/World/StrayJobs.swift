// SPDX-License-Identifier: Apache-2.0

import CWorld
import EventLoop

/// The jobs of Swift's concurrency that name no executor. In a simulation they run on an event loop, not on the threads
/// of the system.
enum StrayJobs {
    /// The loop that runs the jobs. Unsafe, because a simulation has one thread.
    nonisolated(unsafe) private static var loop: EventLoop?

    /// Runs all jobs without an executor on `loop`, for as long as the process lives.
    static func take(for loop: EventLoop) {
        self.loop = loop
        // A pointer to a job is what Swift calls an `UnownedJob`.
        cworld_take_stray_jobs { job in
            guard let job else { return }
            StrayJobs.loop?.enqueue(ExecutorJob(unsafeBitCast(job, to: UnownedJob.self)))
        }
    }
}
