// SPDX-License-Identifier: Apache-2.0

// llhttp's sources include their header by this name.
#include "/usr/share/include/llhttp/llhttp.h"
