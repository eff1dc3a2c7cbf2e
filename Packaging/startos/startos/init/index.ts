// SPDX-License-Identifier: Apache-2.0
import { actions } from '../actions'
import { restoreInit } from '../backups'
import { setInterfaces } from '../interfaces'
import { sdk } from '../sdk'
import { versionGraph } from '../versions'
import { askForSettings } from './tasks'

export const init = sdk.setupInit(restoreInit, versionGraph, setInterfaces, actions, askForSettings)
export const uninit = sdk.setupUninit(versionGraph)
