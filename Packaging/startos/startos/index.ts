// SPDX-License-Identifier: Apache-2.0
// What StartOS looks for in a package.
import { buildManifest } from '@start9labs/start-sdk'
import { manifest as ownManifest } from './manifest'
import { versionGraph } from './versions'

export { actions } from './actions'
export { createBackup } from './backups'
export { init, uninit } from './init'
export { main } from './main'
export const manifest = buildManifest(versionGraph, ownManifest)
