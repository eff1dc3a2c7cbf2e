// SPDX-License-Identifier: Apache-2.0

#include <http_parser.h>

// Accessors that return bit fields, flags and enumerations as plain values.

static inline enum http_errno chttp_errno(const http_parser *parser) { return HTTP_PARSER_ERRNO(parser); }

static inline const char *chttp_method(const http_parser *parser) {
    return http_method_str((enum http_method)parser->method);
}

// With http_should_keep_alive alone, "keep-alive" would take precedence over "close" in HTTP/1.0.
static inline int chttp_keeps_alive(const http_parser *parser) {
    return http_should_keep_alive(parser) && !(parser->flags & F_CONNECTION_CLOSE);
}

static inline int chttp_is_upgrade(const http_parser *parser) { return parser->upgrade; }

static inline int chttp_is_chunked(const http_parser *parser) { return (parser->flags & F_CHUNKED) != 0; }
