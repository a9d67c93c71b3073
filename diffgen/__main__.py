"""``python -m diffgen``."""

from diffgen.cli import main

raise SystemExit(main())
