# SPDX-License-Identifier: Apache-2.0
"""``python3 -m tocsin_client``."""

import sys

from .cli import main

sys.exit(main())
