// SPDX-License-Identifier: Apache-2.0

// First: libevent's configuration defines _GNU_SOURCE, with which glibc's types would differ from those Swift knows.
#include <sys/select.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <event2/util.h>

#include <sys/prctl.h>

// prctl is variadic, which Swift cannot call. The kernel keeps the first 15 bytes.
static inline void clibevent_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
