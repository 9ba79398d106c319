"""`python -m deltauq.cli` is `deltauq`."""

from deltauq.cli.main import main

main()
