// SPDX-License-Identifier: Apache-2.0
import { sdk } from '../sdk'
import { setPassword } from './setPassword'
import { setUpstream } from './setUpstream'

export const actions = sdk.Actions.of().addAction(setUpstream).addAction(setPassword)
