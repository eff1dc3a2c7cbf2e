// SPDX-License-Identifier: Apache-2.0

/** Rings phones through Tocsin nodes: seals a notification for a pairing and submits it over TNP/1 through tor. */
module org.tocsin.client {
    requires org.bouncycastle.provider;

    exports org.tocsin.client;
}
