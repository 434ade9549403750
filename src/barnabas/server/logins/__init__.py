"""What logins are checked against, and who a peer is then."""
