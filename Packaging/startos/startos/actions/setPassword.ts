// SPDX-License-Identifier: Apache-2.0
import { utils } from '@start9labs/start-sdk'
import { settings } from '../fileModels/settings'
import { sdk } from '../sdk'

export const setPassword = sdk.Action.withoutInput(
  'set-password',
  {
    name: 'Make a password for the dashboard',
    description: 'The password replaces the one of before, if there is one, and restarts Tocsin.',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  },
  async ({ effects }) => {
    const password = utils.getDefaultString({ charset: 'a-z,A-Z,0-9', len: 32 })
    await settings.merge(effects, { password })
    return {
      version: '1',
      title: 'The dashboard’s password',
      message: 'The browser also asks for a user name: any will do.',
      result: { type: 'single', value: password, masked: true, copyable: true, qr: false },
    }
  },
)
