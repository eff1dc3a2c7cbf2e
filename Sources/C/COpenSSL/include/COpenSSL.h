// SPDX-License-Identifier: Apache-2.0

#define OPENSSL_SUPPRESS_DEPRECATED

#include <stdlib.h>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

// Functions in place of OpenSSL's macros, which Swift cannot call.

static inline int cssl_set_sni(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }
static inline long cssl_ctx_set_min_tls12(SSL_CTX *ctx) { return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION); }
static inline long cssl_ctx_session_cache_off(SSL_CTX *ctx) { return SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); }
static inline int cssl_ctx_add_chain(SSL_CTX *ctx, X509 *x) { return (int)SSL_CTX_add1_chain_cert(ctx, x); }
static inline BIO *cssl_memory_bio(void) { return BIO_new(BIO_s_mem()); }
static inline long cssl_bio_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
static inline void cssl_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline void cssl_bio_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline EVP_PKEY *cssl_ec_p256_key(void) { return EVP_EC_gen("P-256"); }
// A key of this point and private number, or of the point alone if the number is NULL. OpenSSL
// keeps pointers to names and parts until it has made the parameters; Swift could not keep them
// valid.
static inline EVP_PKEY *cssl_p256_key(const unsigned char *point, size_t pointLength, const unsigned char *number, size_t length) {
    EVP_PKEY *key = NULL;
    OSSL_PARAM *parameters = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *secret = number ? BN_bin2bn(number, (int)length, NULL) : NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    if (builder && context && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0)
        && OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, pointLength)
        && (!secret || OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_PRIV_KEY, secret))
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) && EVP_PKEY_fromdata_init(context) == 1)
        EVP_PKEY_fromdata(context, &key, number ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, parameters);
    OSSL_PARAM_free(parameters);
    EVP_PKEY_CTX_free(context);
    BN_clear_free(secret);
    OSSL_PARAM_BLD_free(builder);
    return key;
}
static inline EVP_PKEY *cssl_rsa_2048_key(void) { return EVP_RSA_gen(2048); }
static inline X509_EXTENSION *cssl_extension(X509V3_CTX *ctx, int nid, const char *value) {
    return X509V3_EXT_conf_nid(NULL, ctx, nid, value);
}
static inline void cssl_set_extension_context(X509V3_CTX *ctx, X509 *issuer, X509 *subject) {
    X509V3_set_ctx(ctx, issuer, subject, NULL, NULL, 0);
}
static inline int cssl_gcm_set_tag(EVP_CIPHER_CTX *ctx, int length, void *tag) {
    return EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, length, tag);
}
static inline int cssl_gcm_get_tag(EVP_CIPHER_CTX *ctx, int length, void *tag) {
    return EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, length, tag);
}
static inline STACK_OF(X509) *cssl_x509_stack(void) { return sk_X509_new_null(); }
static inline int cssl_x509_stack_count(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }
static inline X509 *cssl_x509_stack_item(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline void cssl_x509_stack_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

static inline long cssl_ctx_set_groups(SSL_CTX *ctx, const char *groups) { return SSL_CTX_set1_groups_list(ctx, groups); }
static inline long cssl_ctx_set_maximum_certificates(SSL_CTX *ctx, long bytes) {
    return SSL_CTX_set_max_cert_list(ctx, bytes);
}
// Disables renegotiation, and accepts an end of stream without close_notify: the protocols on top
// are framed and detect truncation themselves.
static inline void cssl_ctx_set_safe_options(SSL_CTX *ctx) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
}

// Deprecated in OpenSSL 3.0, and the only way to replace the source of random bytes in all of its functions.
static inline int cssl_take_random(const RAND_METHOD *method) { return RAND_set_rand_method(method); }

// A key whose private half is elsewhere: OpenSSL calls `sign` in place of its own private
// operation. `padding` is one of RSA's, or 0 for ECDSA. `sign` returns the length of the signature
// in `out`, or -1. OpenSSL 3.0 deprecates such methods; their replacement is a provider with key
// management of its own.
typedef int (*cssl_sign_function)(
    void *context, int padding, const unsigned char *in, size_t length, unsigned char *out, size_t capacity);
struct cssl_external {
    cssl_sign_function sign;
    void (*release)(void *);
    void *context;
};
static void cssl_external_free(void *parent, void *pointer, CRYPTO_EX_DATA *data, int index, long number, void *argument) {
    struct cssl_external *external = (struct cssl_external *)pointer;
    (void)parent, (void)data, (void)index, (void)number, (void)argument;
    if (external) external->release(external->context);
    free(external);
}
static inline int cssl_external_index(int type) {
    static int indices[2] = { -1, -1 };
    int *index = &indices[type == CRYPTO_EX_INDEX_RSA];
    if (*index < 0) *index = CRYPTO_get_ex_new_index(type, 0, NULL, NULL, NULL, cssl_external_free);
    return *index;
}
static int cssl_external_rsa_sign(int length, const unsigned char *in, unsigned char *out, RSA *key, int padding) {
    struct cssl_external *external = (struct cssl_external *)RSA_get_ex_data(key, cssl_external_index(CRYPTO_EX_INDEX_RSA));
    return external ? external->sign(external->context, padding, in, (size_t)length, out, (size_t)RSA_size(key)) : -1;
}
static int cssl_external_ecdsa_sign(
    int type, const unsigned char *digest, int length, unsigned char *out, unsigned int *outLength, const BIGNUM *kinv,
    const BIGNUM *r, EC_KEY *key) {
    struct cssl_external *external =
        (struct cssl_external *)EC_KEY_get_ex_data(key, cssl_external_index(CRYPTO_EX_INDEX_EC_KEY));
    (void)type, (void)kinv, (void)r;
    int count = external
        ? external->sign(external->context, 0, digest, (size_t)length, out, (size_t)ECDSA_size(key)) : -1;
    *outLength = count > 0 ? (unsigned int)count : 0;
    return count > 0;
}
static inline EVP_PKEY *cssl_external_rsa(RSA *public, struct cssl_external *external) {
    static RSA_METHOD *method = NULL;
    if (!method && (method = RSA_meth_dup(RSA_PKCS1_OpenSSL()))) RSA_meth_set_priv_enc(method, cssl_external_rsa_sign);
    RSA *key = RSA_new();
    EVP_PKEY *made = EVP_PKEY_new();
    if (public && method && key && made && RSA_set_method(key, method)
        && RSA_set0_key(key, BN_dup(RSA_get0_n(public)), BN_dup(RSA_get0_e(public)), NULL)
        && RSA_up_ref(key) && EVP_PKEY_assign_RSA(made, key)
        && RSA_set_ex_data(key, cssl_external_index(CRYPTO_EX_INDEX_RSA), external)) {
        RSA_free(key);
        return made;
    }
    RSA_free(key);
    EVP_PKEY_free(made);
    return NULL;
}
static inline EVP_PKEY *cssl_external_ec(const EC_KEY *public, struct cssl_external *external) {
    static EC_KEY_METHOD *method = NULL;
    if (!method && (method = EC_KEY_METHOD_new(EC_KEY_OpenSSL())))
        EC_KEY_METHOD_set_sign(method, cssl_external_ecdsa_sign, NULL, NULL);
    EC_KEY *key = EC_KEY_new();
    EVP_PKEY *made = EVP_PKEY_new();
    if (public && method && key && made && EC_KEY_set_group(key, EC_KEY_get0_group(public))
        && EC_KEY_set_public_key(key, EC_KEY_get0_public_key(public)) && EC_KEY_set_method(key, method)
        && EC_KEY_up_ref(key) && EVP_PKEY_assign_EC_KEY(made, key)
        && EC_KEY_set_ex_data(key, cssl_external_index(CRYPTO_EX_INDEX_EC_KEY), external)) {
        EC_KEY_free(key);
        return made;
    }
    EC_KEY_free(key);
    EVP_PKEY_free(made);
    return NULL;
}
// Makes such a key. NULL if `public` is neither RSA nor ECDSA, or if memory is short; the caller
// then still owns `context`.
static inline EVP_PKEY *cssl_external_key(
    EVP_PKEY *public, cssl_sign_function sign, void (*release)(void *), void *context) {
    // A certificate has no public key that OpenSSL knows if its algorithm is another one.
    struct cssl_external *external = public ? (struct cssl_external *)malloc(sizeof *external) : NULL;
    EVP_PKEY *key = NULL;
    if (!external) return NULL;
    external->sign = sign;
    external->release = release;
    external->context = context;
    switch (EVP_PKEY_get_base_id(public)) {
    case EVP_PKEY_RSA: key = cssl_external_rsa((RSA *)EVP_PKEY_get0_RSA(public), external); break;
    case EVP_PKEY_EC: key = cssl_external_ec(EVP_PKEY_get0_EC_KEY(public), external); break;
    }
    if (!key) free(external);
    return key;
}
static inline int cssl_set_rsa_padding(EVP_PKEY_CTX *context, int padding) {
    return EVP_PKEY_CTX_set_rsa_padding(context, padding);
}
