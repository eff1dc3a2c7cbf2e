// SPDX-License-Identifier: Apache-2.0

// A library to preload under the thread sanitizer, which does not see how Swift's Mutex waits: the functions for a
// contended mutex are in libswiftSynchronization.so, which is not instrumented. These functions stand before them and
// tell the sanitizer when a thread has the mutex, and when it gives it up.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define METHOD __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

// In programs without the sanitizer, which inherit the preloading, there are no such functions.
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

METHOD void lock_slow(uint32_t thread, SELF void *mutex) __asm__(LOCK);
METHOD void unlock_slow(SELF void *mutex) __asm__(UNLOCK);

METHOD void lock_slow(uint32_t thread, SELF void *mutex) {
    METHOD void (*next)(uint32_t, SELF void *) = dlsym(RTLD_NEXT, LOCK);
    next(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

METHOD void unlock_slow(SELF void *mutex) {
    METHOD void (*next)(SELF void *) = dlsym(RTLD_NEXT, UNLOCK);
    if (__tsan_release) __tsan_release(mutex);
    next(mutex);
}
