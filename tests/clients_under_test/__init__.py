"""Small producers, one a client library: each writes 0, 1, 2, ... until it is ended or cannot go on.

They are what `barnabas reauth-check` runs in our tests and for docs/reauthentication.md. What cannot be delivered ends
them with a word on standard error and exit code 1, as it would a program that must not lose anything.
"""
