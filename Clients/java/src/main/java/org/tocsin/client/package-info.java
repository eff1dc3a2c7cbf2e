// SPDX-License-Identifier: Apache-2.0

/**
 * Rings phones through Tocsin nodes. {@link org.tocsin.client.TocsinClient} is the client,
 * {@link org.tocsin.client.PairingToken} seals notifications for a phone.
 */
package org.tocsin.client;
