// SPDX-License-Identifier: Apache-2.0
import { settings } from './fileModels/settings'
import { sdk } from './sdk'

/** The image's user. */
const user = 'tocsin'
const state = '/var/lib/tocsin'
const configuration = '/etc/tocsin/tocsin.toml'
/** Of `listen.admin_token_file` in assets/tocsin.toml. */
const secrets = '/run/secrets'

export const main = sdk.setupMain(async ({ effects }) => {
  const { upstream, password } = (await settings.read().const(effects)) ?? {}
  if (!upstream || !password) throw new Error('The upstream node or the password is not set')

  const node = sdk.SubContainer.of(
    effects,
    { imageId: 'node' },
    sdk.Mounts.of()
      .mountVolume({ volumeId: 'state', subpath: null, mountpoint: state, readonly: false })
      .mountAssets({ subpath: 'tocsin.toml', mountpoint: configuration, type: 'file' }),
    'node',
  )
  const env = { TOCSIN_APP_UPSTREAM_NODE: upstream }
  await node.writeFile(`${secrets}/admin.token`, password, { mode: 0o600 })

  return sdk.Daemons.of(effects)
    .addOneshot('owner', {
      subcontainer: node,
      exec: {
        command: ['sh', '-c', `chmod 700 ${state} && chown -R ${user}:${user} ${state} ${secrets}`],
        user: 'root',
      },
      requires: [],
    })
    .addDaemon('node', {
      subcontainer: node,
      exec: {
        command: ['tocsin', 'run', '--config', configuration],
        user,
        env,
        // It answers what it has taken before it ends.
        sigtermTimeout: 60_000,
      },
      ready: {
        display: 'Tocsin',
        fn: async () => {
          const { exitCode, stdout, stderr } = await node.exec(['tocsin', 'status', '--ready'], { user, env })
          const message = `${stdout}${stderr}`.trim()
          return exitCode === 0 ? { result: 'success', message } : { result: 'failure', message }
        },
        // tor needs two minutes until a new onion can be reached.
        gracePeriod: 180_000,
      },
      requires: ['owner'],
    })
})
