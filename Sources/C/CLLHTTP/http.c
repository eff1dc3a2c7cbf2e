// SPDX-License-Identifier: Apache-2.0

// See llhttp.c.
#include "/usr/share/llhttp/http.c"
