// SPDX-License-Identifier: Apache-2.0

// The parser in C, as Debian's node-llhttp ships it. LLHTTP_STRICT_MODE is set in Package.swift.
#include "/usr/share/llhttp/llhttp.c"
