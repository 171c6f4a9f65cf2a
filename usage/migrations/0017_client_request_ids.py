from django.db import migrations, models

# A new column with a constant default rewrites nothing, but waits for whoever reads the table at the moment, and all
# others wait behind it: rather give up, to be run again. Workers of the version before leave the column out.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0016_index_notes"),
    ]

    operations = [
        migrations.RunSQL(LOCK_TIMEOUT, LOCK_TIMEOUT),
        migrations.AddField(
            model_name="usagerecord",
            name="client_request_id",
            field=models.CharField(db_default="", max_length=128, verbose_name="client's request id"),
        ),
    ]
