from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0009_queued_and_agents"),
    ]

    operations = [
        AddIndexConcurrently("usageday", models.Index(fields=["user_id", "day"], name="usage_day_user")),
        AddIndexConcurrently("usageday", models.Index(fields=["team_id", "day"], name="usage_day_team")),
    ]
