// SPDX-License-Identifier: Apache-2.0

// Must come first: libevent's configuration defines _GNU_SOURCE, with which glibc's types would differ from those that
// Swift imports.
#include <sys/select.h>

#include <event2/buffer.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <event2/util.h>

#include <sys/prctl.h>

// Wraps prctl, because Swift cannot call variadic functions. The kernel keeps the first 15 bytes of the name.
static inline void clibevent_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
