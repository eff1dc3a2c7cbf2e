// SPDX-License-Identifier: Apache-2.0
import { setPassword } from '../actions/setPassword'
import { setUpstream } from '../actions/setUpstream'
import { settings } from '../fileModels/settings'
import { sdk } from '../sdk'

/** Asks for each setting that is missing. Tocsin does not start before: the tasks are critical. */
export const askForSettings = sdk.setupOnInit(async (effects) => {
  const value = await settings.read().const(effects)
  if (!value?.upstream) {
    await sdk.action.createOwnTask(effects, setUpstream, 'critical', {
      reason: 'Tocsin passes notifications on to this node',
    })
  }
  if (!value?.password) {
    await sdk.action.createOwnTask(effects, setPassword, 'critical', {
      reason: 'Other services on this server must not read the dashboard',
    })
  }
})
