// SPDX-License-Identifier: Apache-2.0

/**
 * The phone's half of Tocsin: pairing tokens, the opening of notifications, and handles. {@link org.tocsin.phone.PhonePairing}
 * and {@link org.tocsin.phone.HandleService} are the places to begin.
 */
package org.tocsin.phone;
