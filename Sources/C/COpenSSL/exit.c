// SPDX-License-Identifier: Apache-2.0

#include "COpenSSL.h"

// OpenSSL would free what it keeps when the process calls exit (OPENSSL_init_crypto(3), OPENSSL_INIT_NO_ATEXIT), while
// threads of loops still free their connections: a node that ends would crash. The first call decides, so it precedes
// main.
__attribute__((constructor)) static void keep_until_the_end(void) { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }
