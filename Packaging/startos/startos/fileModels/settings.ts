// SPDX-License-Identifier: Apache-2.0
import { FileHelper, z } from '@start9labs/start-sdk'
import { sdk } from '../sdk'

/** What the user has set. A setting that is missing has a task that asks for it: init/tasks.ts. */
export const settings = FileHelper.json(
  { base: sdk.volumes.settings, subpath: 'settings.json' },
  z.object({
    /** The upstream node, as ADDRESS.onion:PORT. */
    upstream: z.string().optional().catch(undefined),
    /** The token of the dashboard. */
    password: z.string().optional().catch(undefined),
  }),
)
