// SPDX-License-Identifier: Apache-2.0
import { sdk } from './sdk'

/** `listen.admin` in assets/tocsin.toml. */
const dashboardPort = 7079

export const setInterfaces = sdk.setupInterfaces(async ({ effects }) => {
  const origin = await sdk.MultiHost.of(effects, 'dashboard').bindPort(dashboardPort, { protocol: 'http' })
  const dashboard = sdk.createInterface(effects, {
    id: 'dashboard',
    name: 'Dashboard',
    description: 'What has been delivered. It asks for the password that you made; any user name will do.',
    type: 'ui',
    masked: false,
    schemeOverride: null,
    username: null,
    path: '',
    query: {},
  })
  return [await origin.export([dashboard])]
})
