#!/usr/bin/env python3
"""Run Bridge's commands: `manage.py up` starts everything."""

import os
import sys

from bridgeproject.env import data_dir_from


def main() -> None:
    # The data directory decides where the database is, so it must be known before settings load.
    if data_dir := data_dir_from(sys.argv):
        os.environ["BRIDGE_DATA_DIR"] = data_dir
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bridgeproject.settings")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
