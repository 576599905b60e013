import sys

from webhooks_client.cli import main

sys.exit(main())
