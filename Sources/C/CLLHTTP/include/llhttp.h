// SPDX-License-Identifier: Apache-2.0

// Under the name by which llhttp's sources include it.
#include "/usr/share/include/llhttp/llhttp.h"
