"""Make the groups of the roles; what they may do stands in `keys.roles`."""

from typing import Any

from django.db import migrations

NAMES = ("role: lead", "role: support", "role: admin")


def make_roles(apps: Any, schema_editor: Any) -> None:
    groups = apps.get_model("auth", "Group")
    for name in NAMES:
        groups.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("members", "0002_watch_changes")]
    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
