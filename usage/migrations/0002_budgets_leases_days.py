"""Sums by day, leases of workers, and budgets that can be reserved from."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# Sums are updated in place, over and over: room on the page keeps that cheap.
ROOM = """
ALTER TABLE usage_usagehour SET (fillfactor = 70);
ALTER TABLE usage_usageday SET (fillfactor = 50);
ALTER TABLE usage_budget SET (fillfactor = 50);
"""

FUNCTIONS = """
CREATE FUNCTION usage_period_start(period text, known_start timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN period = 'total' THEN known_start ELSE date_trunc(period, now(), 'UTC') END
$$;

-- Reserve for a batch of admissions, one after the other, each from all its budgets or from none.
-- wanted: [{place, admission, budget, amount}]. Answers each admission with the budget that refused it, or NULL.
CREATE FUNCTION usage_reserve(wanted json, by_worker text)
RETURNS TABLE (admission uuid, refused_by bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    request record;
BEGIN
    -- One order of locking for all writers.
    PERFORM 1 FROM usage_budget AS b
    WHERE b.id IN (SELECT w.budget FROM json_to_recordset(wanted) AS w(budget bigint)) ORDER BY b.id FOR UPDATE;
    UPDATE usage_budget AS b
    SET spent = 0, warned_percent = 0, period_start = usage_period_start(b.period, b.period_start)
    WHERE b.id IN (SELECT w.budget FROM json_to_recordset(wanted) AS w(budget bigint))
        AND b.period_start < usage_period_start(b.period, b.period_start);
    FOR request IN
        SELECT w.admission, array_agg(w.budget) AS budgets, array_agg(w.amount) AS amounts
        FROM json_to_recordset(wanted) AS w(place integer, admission uuid, budget bigint, amount bigint)
        GROUP BY w.place, w.admission ORDER BY w.place
    LOOP
        admission := request.admission;
        refused_by := NULL;
        -- Asked twice, when the first answer was lost on its way: it holds already.
        IF NOT EXISTS (SELECT FROM usage_reservation AS r WHERE r.admission = request.admission) THEN
            SELECT b.id INTO refused_by
            FROM usage_budget AS b JOIN unnest(request.budgets, request.amounts) AS w(budget, amount) ON b.id = w.budget
            WHERE b.enabled AND (b.spent >= b."limit" OR b.spent + b.reserved + w.amount > b."limit")
            ORDER BY b.id LIMIT 1;
            IF refused_by IS NULL THEN
                UPDATE usage_budget AS b SET reserved = b.reserved + w.amount
                FROM unnest(request.budgets, request.amounts) AS w(budget, amount) WHERE b.id = w.budget;
                INSERT INTO usage_reservation (admission, budget_id, amount, worker)
                SELECT request.admission, b.id, w.amount, by_worker
                FROM usage_budget AS b JOIN unnest(request.budgets, request.amounts) AS w(budget, amount)
                    ON b.id = w.budget;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION usage_reserve(json, text);
DROP FUNCTION usage_period_start(text, timestamptz);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0001_ledger"),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageDay",
            fields=[
                ("key", models.UUIDField()),
                ("user_id", models.BigIntegerField(null=True)),
                ("user_name", models.CharField(max_length=150)),
                ("team_id", models.BigIntegerField(null=True)),
                ("team_name", models.CharField(max_length=150)),
                ("token_id", models.BigIntegerField(null=True)),
                ("token_name", models.CharField(max_length=150)),
                ("alias", models.CharField(max_length=200)),
                ("upstream_id", models.BigIntegerField(null=True)),
                ("upstream_name", models.CharField(max_length=150)),
                ("upstream_model", models.CharField(max_length=200)),
                ("credential_id", models.BigIntegerField(null=True)),
                ("credential_label", models.CharField(max_length=150)),
                ("client_name", models.CharField(max_length=64)),
                ("client_version", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=16)),
                ("error_type", models.CharField(max_length=64)),
                ("requests", models.BigIntegerField(default=0)),
                ("attempts", models.BigIntegerField(default=0)),
                ("streams", models.BigIntegerField(default=0)),
                ("estimated", models.BigIntegerField(default=0)),
                ("estimated_tokens", models.BigIntegerField(default=0)),
                ("unpriced", models.BigIntegerField(default=0)),
                ("input_tokens", models.BigIntegerField(default=0)),
                ("cache_read_tokens", models.BigIntegerField(default=0)),
                ("cache_write_tokens", models.BigIntegerField(default=0)),
                ("output_tokens", models.BigIntegerField(default=0)),
                ("thinking_tokens", models.BigIntegerField(default=0)),
                ("cost_nano", models.BigIntegerField(default=0)),
                ("ttft_histogram", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField())),
                ("duration_histogram", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField())),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateTimeField()),
            ],
            options={
                "verbose_name": "day of usage",
                "verbose_name_plural": "days of usage",
            },
        ),
        migrations.CreateModel(
            name="WorkerLease",
            fields=[
                ("worker", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("beat", models.BigIntegerField(default=0)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("beat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddField(
            model_name="budget",
            name="warn_emails",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.EmailField(max_length=254), blank=True, default=list
            ),
        ),
        migrations.AddField(
            model_name="budget",
            name="warn_webhook",
            field=models.URLField(blank=True),
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token_id", models.BigIntegerField()),
                ("key", models.CharField(max_length=255)),
                ("body_digest", models.BinaryField()),
                ("request_id", models.CharField(max_length=64)),
                ("worker", models.CharField(max_length=64)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("status", models.SmallIntegerField(null=True)),
                ("answer", models.BinaryField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["made_at"], name="usage_idempotency_made_at")],
                "constraints": [models.UniqueConstraint(fields=("token_id", "key"), name="usage_idempotency_once")],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "admission", "budget_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("admission", models.UUIDField()),
                ("amount", models.BigIntegerField()),
                ("worker", models.CharField(max_length=64)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("budget", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="usage.budget")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("amount__gte", 0)), name="usage_reservation_not_negative"
                    )
                ],
            },
        ),
        migrations.RunSQL(ROOM, migrations.RunSQL.noop),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
    ]
