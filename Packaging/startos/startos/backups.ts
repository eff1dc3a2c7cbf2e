// SPDX-License-Identifier: Apache-2.0
import { sdk } from './sdk'

export const { createBackup, restoreInit } = sdk.setupBackups(async () =>
  // A restored spool would ring phones again for what was delivered since.
  sdk.Backups.withOptions({ exclude: ['spool.*'] }).addVolume('state').addVolume('settings'),
)
