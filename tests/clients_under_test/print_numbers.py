"""Prints 0, 1, 2, ..., each on a line of its own, for a client that reads its records from standard input."""

import os
import time

number = 0
while True:
    try:
        print(number, flush=True)
    except BrokenPipeError:
        os._exit(0)  # the client is gone; what it said last is what counts
    number += 1
    time.sleep(0.02)
