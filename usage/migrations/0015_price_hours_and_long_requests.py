"""Cache writes for an hour, and prices of long requests."""

from django.db import migrations, models

# New columns rewrite nothing, but wait for whoever reads the table at the moment, and all others wait behind them:
# rather give up, to be run again.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0014_budgets_for_models"),
    ]

    operations = [
        migrations.RunSQL(LOCK_TIMEOUT, LOCK_TIMEOUT),
        migrations.AddField(
            model_name="price",
            name="cache_write_1h_price",
            field=models.BigIntegerField(blank=True, help_text="Empty: as cache write.", null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_above",
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_cache_read_price",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_cache_write_1h_price",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_cache_write_price",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_input_price",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="price",
            name="long_output_price",
            field=models.BigIntegerField(blank=True, help_text="Empty: as output.", null=True),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="cache_write_1h_tokens",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="cache write tokens for 1 h"),
        ),
        migrations.AddConstraint(
            model_name="price",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("long_above__isnull", True), ("long_input_price__isnull", True)),
                    models.Q(("long_above__gt", 0), ("long_input_price__gte", 0)),
                    _connector="OR",
                ),
                name="usage_price_long_whole",
            ),
        ),
    ]
