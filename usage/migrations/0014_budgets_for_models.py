"""Budgets for some model aliases only."""

import django.contrib.postgres.fields
from django.db import migrations, models

IS_FOR = """
CREATE FUNCTION usage_is_for(aliases text[], alias text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT aliases = '{}' OR EXISTS (
        SELECT FROM unnest(aliases) AS pattern
        WHERE alias = pattern OR right(pattern, 1) = '*' AND starts_with(alias, left(pattern, -1))
    )
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0013_count_limits_together"),
    ]

    operations = [
        migrations.AddField(
            model_name="budget",
            name="aliases",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=200), blank=True, db_default=[], default=list, size=None
            ),
        ),
        migrations.RunSQL(IS_FOR, "DROP FUNCTION usage_is_for(text[], text)"),
    ]
