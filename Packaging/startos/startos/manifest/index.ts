// SPDX-License-Identifier: Apache-2.0
import { setupManifest } from '@start9labs/start-sdk'

export const manifest = setupManifest({
  id: 'tocsin',
  title: 'Tocsin',
  license: 'Apache-2.0',
  packageRepo: 'https://tocsin.invalid/source',
  upstreamRepo: 'https://tocsin.invalid/source',
  marketingUrl: 'https://tocsin.invalid',
  donationUrl: null,
  description: {
    short: 'Rings your phone when a trade needs you',
    long:
      'Passes the encrypted notifications of your Bisq 2 node on to the operator of the mobile app, through Tor. It keeps ' +
      'them until they are delivered, so that none is lost while the other side, Apple or Google is down. Nobody on the way ' +
      'can read them, and the operator does not learn who you are: each phone has a Tor circuit of its own.',
  },
  // The settings are this package's own; the node sees only its state.
  volumes: ['state', 'settings'],
  images: {
    node: {
      // With the digest of the image for both architectures: Docs/releasing.md.
      source: { dockerTag: 'registry.tocsin.invalid/tocsin:1.1.0' },
      arch: ['x86_64', 'aarch64'],
    },
  },
  dependencies: {},
})
