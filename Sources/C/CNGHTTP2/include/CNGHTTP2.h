// SPDX-License-Identifier: Apache-2.0

#ifndef TOCSIN_NGHTTP2_H
#define TOCSIN_NGHTTP2_H

#include <nghttp2/nghttp2.h>

/// The memory of one session, used by one thread at a time. nghttp2 allocates six small objects for each request and frees
/// them with its response: up to 64 KiB of freed objects stay here for the next request, without the allocator.
typedef struct tocsin_session_memory tocsin_session_memory;

/// Memory for one session; NULL if the system has none.
tocsin_session_memory *tocsin_session_memory_new(void);

/// The functions with which nghttp2 allocates and frees; they use `memory`.
nghttp2_mem tocsin_session_memory_functions(tocsin_session_memory *memory);

/// The bytes of freed objects that are kept for later requests, with the header of each.
size_t tocsin_session_memory_kept(const tocsin_session_memory *memory);

/// Frees the memory of a session, which must have ended.
void tocsin_session_memory_del(tocsin_session_memory *memory);

#endif
