// SPDX-License-Identifier: Apache-2.0
import { settings } from '../fileModels/settings'
import { sdk } from '../sdk'

const { InputSpec, Value } = sdk

export const setUpstream = sdk.Action.withInput(
  'set-upstream',
  {
    name: 'Set the upstream node',
    description: 'The node that has the credentials of the phone app. Ask its operator for the address.',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  },
  InputSpec.of({
    upstream: Value.text({
      name: 'Onion address and port',
      description: null,
      required: true,
      default: null,
      placeholder: 'ADDRESS.onion:7077',
      patterns: [
        {
          regex:
            '^[a-z2-7]{56}\\.onion:(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})$',
          description: 'An onion address of version 3 (56 letters and digits), a colon, and the port',
        },
      ],
    }),
  }),
  async () => ({ upstream: await settings.read((value) => value.upstream).once() ?? undefined }),
  async ({ effects, input }) => {
    await settings.merge(effects, { upstream: input.upstream })
  },
)
