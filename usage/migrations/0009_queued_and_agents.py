from django.db import migrations, models

# New columns rewrite nothing, but wait for whoever reads the table at the moment, and all others wait behind them:
# rather give up, to be run again.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0008_keep_error_messages"),
    ]

    operations = [
        migrations.RunSQL(LOCK_TIMEOUT, LOCK_TIMEOUT),
        migrations.AddField(
            model_name="usagerecord",
            name="queued_ms",
            field=models.IntegerField(null=True, verbose_name="queued (ms)"),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="agent_id",
            field=models.CharField(db_default="", max_length=64),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="agent_kind",
            field=models.CharField(db_default="", max_length=64),
        ),
    ]
