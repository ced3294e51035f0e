"""Does not hear SIGTERM: what it has done since its last checkpoint is lost whenever it is stopped."""

import signal
import time

from tests.e2e.scripts.diary import note

signal.signal(signal.SIGTERM, signal.SIG_IGN)
note("begun")
while True:
    time.sleep(1)
