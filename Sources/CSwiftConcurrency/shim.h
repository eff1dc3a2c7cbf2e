// SPDX-License-Identifier: Apache-2.0

// Swift's runtime passes each job that has no executor to this hook, if it is set (swift/Runtime/Concurrency.h).
typedef __attribute__((swiftcall)) void (*cswift_enqueue)(void *job);
extern __attribute__((swiftcall)) void (*swift_task_enqueueGlobal_hook)(void *job, cswift_enqueue original);

// Defined in Swift, by EventLoop.
void tocsin_run_stray_job(void *job);

static inline __attribute__((swiftcall)) void cswift_pass_on(void *job, cswift_enqueue original) {
    (void)original;
    tocsin_run_stray_job(job);
}
static inline void cswift_take_stray_jobs(void) { swift_task_enqueueGlobal_hook = cswift_pass_on; }
