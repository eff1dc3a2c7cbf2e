// SPDX-License-Identifier: Apache-2.0
import { IMPOSSIBLE, VersionGraph, VersionInfo } from '@start9labs/start-sdk'

const current = VersionInfo.of({
  version: '1.1.0:0',
  releaseNotes: 'CHANGELOG.md of the source lists what changed.',
  migrations: {
    // The node itself reads the state of an older version, and refuses that of a newer one.
    up: async () => {},
    down: IMPOSSIBLE,
  },
})

export const versionGraph = VersionGraph.of({ current, other: [] })
