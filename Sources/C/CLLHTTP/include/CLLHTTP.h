// SPDX-License-Identifier: Apache-2.0

#include "llhttp.h"

// Accessors that return flags and enumerations as plain values.

// With llhttp_should_keep_alive alone, "keep-alive" would take precedence over "close" in HTTP/1.0.
static inline int cllhttp_keeps_alive(const llhttp_t *parser) {
    return llhttp_should_keep_alive(parser) && !(parser->flags & F_CONNECTION_CLOSE);
}

static inline int cllhttp_is_chunked(const llhttp_t *parser) { return (parser->flags & F_CHUNKED) != 0; }

static inline const char *cllhttp_method(const llhttp_t *parser) {
    return llhttp_method_name((llhttp_method_t)parser->method);
}

// The name of a status, such as NOT_FOUND; empty for one that llhttp does not know (llhttp_status_name aborts then).
static inline const char *cllhttp_status_name(int status) {
#define CLLHTTP_NAME(number, name, text) case number: return #name;
    switch (status) {
        HTTP_STATUS_MAP(CLLHTTP_NAME)
    default: return "";
    }
#undef CLLHTTP_NAME
}

// What a callback returns to end the parsing with an error, and to pause it at the end of a
// message.
static const int cllhttp_fail = -1;
static const int cllhttp_pause = HPE_PAUSED;
