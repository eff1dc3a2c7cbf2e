// SPDX-License-Identifier: Apache-2.0

import CSwiftConcurrency

/// The jobs of Swift's concurrency that name no event loop. In a simulation they run on a loop, too, not on the threads of
/// the system.
enum StrayJobs {
    /// Unsafe, because a simulation has one thread.
    nonisolated(unsafe) fileprivate static var loop: EventLoop?

    /// Runs all jobs without an executor on `loop`, for as long as the process lives.
    static func take(for loop: EventLoop) {
        self.loop = loop
        cswift_take_stray_jobs()
    }
}

/// Called by Swift's runtime in place of the global executor. Its pointer to a job is what Swift calls an `UnownedJob`.
@_cdecl("tocsin_run_stray_job")
func runStrayJob(_ job: UnsafeMutableRawPointer) {
    StrayJobs.loop?.enqueue(ExecutorJob(unsafeBitCast(job, to: UnownedJob.self)))
}
